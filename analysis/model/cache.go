package model

// layerCache are the keys and values of one layer that were made so far.
type layerCache struct{ k, v []float32 }
