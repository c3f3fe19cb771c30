// Package report makes of a session what a person reads and passes on: figures
// with their intervals as lines for a terminal, and one HTML file.
//
// Promises. The file is whole in itself: it loads nothing, has a policy that
// forbids loading, and can be read without scripts, in print and on a phone. Names
// out of a session stay text wherever they stand. The same session gives the same
// bytes: nothing in a report is of the clock or of the machine. A figure that
// does not exist is shown with its reason, one that is not finite is counted
// and enters no scale, and what is not shown of a long list is said with its
// number. Nothing tells by colour alone.
package report
