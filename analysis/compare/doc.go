// Package compare sets two measured variants of one source against each other,
// tensor by tensor: who wins where, by how much, at what size.
//
// It knows nothing of sessions: an Input is plain figures.
//
// Promises: figures that are not finite are in no sum and no rank, they are
// counted as left out; a statistic that does not exist is a landscape.Value with
// the reason; the same input gives the same result; functions change nothing that
// they are given.
package compare
