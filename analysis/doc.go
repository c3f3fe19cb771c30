// Package analysis says what the numbers mean. It reads tap records and figures
// that people publish; it never touches weights.
//
// Promises: every verdict comes with the figures that it rests on, and a figure
// that is not defined is reported as such, never as NaN or 0.
package analysis
