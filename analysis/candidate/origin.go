package candidate

import "quantscope/analysis/model"

// traced is a source that knows where each of its tensors comes from.
type traced interface {
	model.Source
	model.Origins
	vectorOrigin(p model.Place, name string) any
}

// layerOrigin is all of a layer of one owner: a checkpoint, a variant, a mixture.
type layerOrigin struct {
	owner any
	layer int
}

// placeOrigin is one tensor of one owner.
type placeOrigin struct {
	owner any
	model.Place
	name string
}

// identity stands for the weights of a candidate whose source does not say where
// they come from; candidates that are made of it share it.
type identity struct{ _ byte }

// owned is a source whose weights are all its candidate's.
type owned struct {
	model.Source
	owner *identity
}

func (o owned) LayerOrigin(layer int) any                { return layerOrigin{o.owner, layer} }
func (o owned) WeightOrigin(p model.Place) any           { return placeOrigin{o.owner, p, "weight"} }
func (o owned) vectorOrigin(p model.Place, n string) any { return placeOrigin{o.owner, p, n} }

// identified gives a candidate an identity of its own, if it has none, and a
// budget for what is made of it.
func (c *Candidate) identified() *Candidate {
	if c.id == nil {
		c.id = new(identity)
	}
	if c.codes == nil {
		c.codes = new(budget)
	}
	return c
}

// traced is a source of the candidate's weights that knows where they come from.
func (c *Candidate) traced() (traced, error) {
	s, err := c.source()
	if err != nil {
		return nil, err
	}
	if t, ok := s.(traced); ok {
		return t, nil
	}
	return owned{s, c.id}, nil
}
