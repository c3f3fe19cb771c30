package model

import "context"

// Resident keeps what a Source gave, so that decoding reads every weight once.
// Its memory is that of the weights as they are stored.
type Resident struct {
	Source
	weights map[Place]Weight
	vectors map[vectorAt][]float32
}

// NewResident makes one. The source must not be used beside it.
func NewResident(src Source) *Resident {
	return &Resident{src, map[Place]Weight{}, map[vectorAt][]float32{}}
}

// Weight implements Source.
func (s *Resident) Weight(ctx context.Context, p Place) (Weight, error) {
	if w, ok := s.weights[p]; ok {
		return w, nil
	}
	w, err := s.Source.Weight(ctx, p)
	if err == nil {
		s.weights[p] = w
	}
	return w, err
}

// Vector implements Source. What it returns must not be changed.
func (s *Resident) Vector(ctx context.Context, p Place, param string) ([]float32, error) {
	at := vectorAt{p, param}
	if v, ok := s.vectors[at]; ok {
		return v, nil
	}
	v, err := s.Source.Vector(ctx, p, param)
	if err == nil {
		s.vectors[at] = v
	}
	return v, err
}

// Release keeps everything.
func (s *Resident) Release() {}
