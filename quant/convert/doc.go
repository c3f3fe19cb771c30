// Package convert stores a quantized checkpoint in another layout without
// quantizing it again.
//
// Promises: codes stay, bit for bit; scales and zero points are moved, widened
// where that is exact, or, where layouts differ in whether a scale multiplies or
// divides, replaced by their reciprocals, which is said. What the other layout
// cannot say is refused with the reason before anything is written. Tensors of no
// quantized module are copied byte for byte, files keep their names, everything
// beside the weights comes along. The copy is written as an export is (see package
// export), and Check reads it again: every code is compared, and every value under
// both layouts' formulas.
//
// A form of storage joins by a row of the table in forms.go and its functions.
package convert
