package viewstest

import "pgregory.net/rapid"

// Size draws a width or a height from 0 to most. Plain ranges favour small
// values, at which little is drawn; here every second one lies in the upper two
// thirds.
func Size(most int) *rapid.Generator[int] {
	return rapid.OneOf(
		rapid.IntRange(0, most),
		rapid.Custom(func(t *rapid.T) int { return most - rapid.IntRange(0, 2*most/3).Draw(t, "below the largest") }),
	)
}
