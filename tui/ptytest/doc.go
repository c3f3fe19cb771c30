// Package ptytest gives a test a real terminal to run a program on. It is for
// tests alone.
//
// Promises: a wait is woken by what the program writes; its deadline is only for
// one that hangs.
package ptytest
