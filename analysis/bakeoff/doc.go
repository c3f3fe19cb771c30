// Package bakeoff tells which of several variants wins on a stratified sample of
// tensors: the worst of a base variant, some at random, a layer, a projection, an
// expert index.
//
// Promises: the same table, strata and seed draw the same tensors, and a stratum's
// draw does not depend on which others there are. Figures are over pairs of
// measured tensors whose two values are finite; the others are counted by
// what is wrong with them. A statistic that does not exist says why. Nothing panics
// on a table whose arms have a sample for each item.
package bakeoff
