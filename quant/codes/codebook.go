package codes

import (
	"fmt"
	"math/bits"
	"strings"

	"quantscope/kernels"
)

// ofTwoBits says whether a matrix has codes of a codebook.
func (m *Matrix) ofTwoBits() bool {
	scheme, _, _ := strings.Cut(m.Effective, "+")
	f, err := kernels.FormatByName(scheme)
	return err == nil && f.Codebook && len(m.Codes) > 0
}

// checkCodebook wants a codebook where codes are of two bits, and nowhere else.
func (m *Matrix) checkCodebook() error {
	switch {
	case !m.ofTwoBits() && m.Codebook != 0:
		return fmt.Errorf("%s has no codebook, and %#04x is one", m.Effective, m.Codebook)
	case m.ofTwoBits() && kernels.CodebookCodes(m.Codebook) == nil:
		return fmt.Errorf("%s with the codebook %#04x: %w", m.Effective, m.Codebook, kernels.ErrCodebook)
	}
	return nil
}

// pack makes two bits of the codes of a matrix that was written when they were four: the
// codebook is then that of the codes which are used, made full with those of the least
// magnitudes, since fewer than four leave open what the others were.
func (m *Matrix) pack() error {
	if m.Codebook != 0 || !m.ofTwoBits() {
		return m.checkCodebook()
	}
	wide, narrow := (m.Cols+1)/2, (m.Cols+3)/4
	if len(m.Codes)%max(wide, 1) != 0 || len(m.Codes)/max(wide, 1) != m.Rows {
		return fmt.Errorf("%s without a codebook has %d bytes of codes for %d×%d, want four bits each: %w", m.Effective, len(m.Codes), m.Rows, m.Cols, kernels.ErrShape)
	}
	var mask uint16
	for r := range m.Rows {
		row := m.Codes[r*wide:][:wide]
		for c := range m.Cols {
			mask |= 1 << (row[c/2] >> (c % 2 * 4) & 15)
		}
	}
	for code := 0; bits.OnesCount16(mask) < kernels.CodebookValues; code++ {
		mask |= 1 << code
	}
	packed := make([]byte, m.Rows*narrow)
	if err := kernels.PackCode2(packed, m.Codes, m.Rows, m.Cols, mask); err != nil {
		return err
	}
	m.Codes, m.Codebook = packed, mask
	return nil
}
