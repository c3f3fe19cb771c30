// Package yardstick measures how far a candidate's predictions are from the
// reference's: Kullback-Leibler divergence over the whole vocabulary, position by
// position, with what else can be said of two rows of logits.
//
// Promises: logits are f32, every sum is f64. A figure that is infinite (the
// candidate excludes what the reference allows) is kept as such and counted; a
// figure that is not a number is an error of its position, never averaged in.
package yardstick
