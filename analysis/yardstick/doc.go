// Package yardstick measures how far a candidate's predictions are from the
// reference's: Kullback-Leibler divergence over the whole vocabulary, position by
// position, with what else can be said of two rows of logits.
//
// NewSetup says what is measured, Measure takes texts through all parties in one
// pass and gives chunks of scores, and Analyze makes a report of any chunks of a
// setup, without weights: means with errors over chunks, comparisons of pairs,
// verdicts. Complete adds what only the pass itself can know.
//
// Promises: logits are f32, every sum is f64. The same weights and texts give the
// same scores, to the last bit, for any number of threads, any memory, any other
// candidates beside and with or without the cache of the reference's hidden
// states; that it is so is checked in every measurement. A figure that is infinite
// (the candidate excludes what the reference allows) is kept as such and counted; a
// figure that is not a number is an error of its position, never averaged in.
package yardstick
