// Package gates asks candidates the same questions and says how many they answer,
// whether that differs from the baseline by more than the baseline differs from
// itself, and whether the measurement can be believed.
//
// Promises: every share is n of m with an interval; an answer that is empty, cut off
// or did not come is no pass; the baseline is measured again in the same run, and
// that spread bounds what counts as a difference; checks of the measurement itself
// come with the figures and before them; a check that could not be made is told as
// such, never as passed; results are whole or absent, and a run goes on where it was.
package gates
