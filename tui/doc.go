// Package tui is the workbench in a terminal: the root model, layout, focus,
// keys, mouse, dialogs and screens around the panes of package views.
//
// Promises. Loop: Update and View do no IO and wait for nothing; whatever takes
// time is a command under one context, and answers of requests that were
// overtaken are dropped by generation. Delivery: a feed is pulled once per
// frame with one request in flight, so the rate of measuring never becomes a
// rate of drawing. Terminal: Run leaves it as it was found, also after a panic
// in a command, in Update or in View. Every line of a frame is at most as wide
// as the screen, and colour is never the only carrier of a meaning.
package tui
