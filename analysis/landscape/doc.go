// Package landscape turns tap records into decisions: is there a tail worth
// protecting, what would protection cost, and does it beat controls at the same
// bytes.
//
// It knows nothing of sessions: a Table is plain figures. Analyze says what the
// figures of one variant look like, Price what exemption lists would buy, and a
// Solver which variant each tensor should have within a budget.
//
// Promises: the same table gives the same result, whatever runs beside it: what
// is random has a stated seed. Figures that are not finite never enter a sum or
// a rank, they are counted as left out. A statistic that does not exist (no
// variance, fewer than three values, one layer) is a Value with the reason, never
// NaN or 0. Functions change nothing they are given.
package landscape
