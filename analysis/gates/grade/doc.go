// Package grade says whether an answer passes, and why not.
//
// Promises: an empty answer never passes, one that was cut off at its budget never
// passes unless its probe says so, an answer that did not come is a failure and is
// told apart; every verdict has a reason that a person can check against the text;
// the same answer has the same verdict. Texts of any bytes are graded, none panics.
package grade
