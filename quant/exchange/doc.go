// Package exchange writes recipes as other tools read them, and reads theirs.
//
// Promises: what is exchanged is an assignment, which module of a checkpoint is stored
// in which scheme; patterns are only its form. What is written is read back by the
// other tool's own rules of matching, over every module of the checkpoint, and must
// give the same assignment, or it is not written. What a format cannot say is refused
// by name, or noted where it changes no module's scheme (a method, activations). What is
// read and not understood is an error with its place, never passed over.
//
// A module is what the other tools name: a tensor's name without .weight, or the
// parameter itself where experts are stored as one tensor.
package exchange
