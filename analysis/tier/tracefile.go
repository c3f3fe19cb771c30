package tier

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strconv"

	"quantscope/quant/checkpoint"
)

// A recorded trace is a safetensors file with one tensor, routes, of U16 [tokens,
// layers, experts a token], and metadata that says what its indices mean.
const (
	routesFormat = "quantscope-routes-1"
	routesTensor = "routes"
	maxPhases    = 1 << 16
)

// WriteTrace records a trace in a file that must not be there yet.
func WriteTrace(path string, t *Trace, model string) error {
	layers, err := json.Marshal(t.Layers)
	if err != nil {
		return fmt.Errorf("tier: %s: %w", path, err)
	}
	phases, err := json.Marshal(t.Phases)
	if err != nil {
		return fmt.Errorf("tier: %s: %w", path, err)
	}
	w, err := checkpoint.NewWriter(path, []checkpoint.Spec{{Name: routesTensor, DType: checkpoint.U16, Shape: []int64{int64(t.Tokens), int64(len(t.Layers)), int64(t.TopK)}}}, map[string]string{
		"format": routesFormat, "layers": string(layers), "experts": strconv.Itoa(t.Experts), "phases": string(phases), "name": t.Name, "model": model, "sha256": t.SHA256(),
	})
	if err != nil {
		return err
	}
	defer w.Abort()
	var buf [1 << 16]byte
	for rest := t.Choices; len(rest) > 0; {
		n := min(len(rest), len(buf)/2)
		for i, c := range rest[:n] {
			binary.LittleEndian.PutUint16(buf[2*i:], c)
		}
		if _, err := w.Write(buf[:2*n]); err != nil {
			return err
		}
		rest = rest[n:]
	}
	return w.Commit()
}

// ReadTrace reads what WriteTrace wrote, or another program in the same form.
func ReadTrace(ctx context.Context, path string) (*Trace, error) {
	ck, err := checkpoint.OpenFile(path)
	if err != nil {
		return nil, err
	}
	defer ck.Close()
	bad := func(tensor, reason string, err error) error {
		return &checkpoint.FileError{File: path, Tensor: tensor, Reason: reason, Err: err}
	}
	meta := ck.Files[0].Metadata
	if f := meta["format"]; f != routesFormat {
		return nil, bad("", fmt.Sprintf("is no recorded trace: its format is %q, not %q", f, routesFormat), nil)
	}
	x, ok := ck.Lookup(routesTensor)
	if !ok {
		return nil, bad("", "holds no tensor "+routesTensor, nil)
	}
	if x.DType != checkpoint.U16 || len(x.Shape) != 3 {
		return nil, bad(x.Name, fmt.Sprintf("is %s of shape %v; want U16 [tokens, layers, experts a token]", x.DType, x.Shape), nil)
	}
	t := &Trace{Name: path, Kind: File}
	if err := json.Unmarshal([]byte(meta["layers"]), &t.Layers); err != nil {
		return nil, bad("", "metadata layers", err)
	}
	if t.Experts, err = strconv.Atoi(meta["experts"]); err != nil {
		return nil, bad("", "metadata experts", err)
	}
	if text := meta["phases"]; text != "" {
		if err := json.Unmarshal([]byte(text), &t.Phases); err != nil {
			return nil, bad("", "metadata phases", err)
		}
	}
	if len(t.Phases) > maxPhases {
		return nil, bad("", fmt.Sprintf("%d phases, of at most %d", len(t.Phases), maxPhases), nil)
	}
	if int64(len(t.Layers)) != x.Shape[1] {
		return nil, bad(x.Name, fmt.Sprintf("is of %d layers, and the metadata lists %d", x.Shape[1], len(t.Layers)), nil)
	}
	if x.Size/2 > maxChoices || x.Shape[2] > maxExperts {
		return nil, bad(x.Name, fmt.Sprintf("holds %d choices, of at most %d", x.Size/2, maxChoices), nil)
	}
	t.Tokens, t.TopK = int(x.Shape[0]), int(x.Shape[2])
	t.Choices = make([]uint16, x.Size/2)
	var buf [1 << 16]byte // in pieces: a whole trace is not to stand in memory twice
	for at := 0; at < len(t.Choices); {
		raw := buf[:2*min(len(t.Choices)-at, len(buf)/2)]
		if err := ck.ReadAt(ctx, x, 2*int64(at), raw); err != nil {
			return nil, err
		}
		for ; len(raw) > 0; raw, at = raw[2:], at+1 {
			t.Choices[at] = binary.LittleEndian.Uint16(raw)
		}
	}
	if err := t.check(); err != nil {
		return nil, bad(x.Name, "cannot be meant", err)
	}
	if want := meta["sha256"]; want != "" && want != t.SHA256() {
		return nil, bad(x.Name, "is not what was recorded: its SHA-256 is another than the metadata's", nil)
	}
	return t, nil
}
