// Package views holds the panes and the drawing that they share: heat map,
// histogram, table, chart, scatter, timeline.
//
// Promises: View reads and writes only the pane's own cache; no line of a view
// is wider than the width it was given, by display width; no function here
// reads a clock, a file or the environment; non-finite values never enter a
// bound, a mean or a colour scale.
package views
