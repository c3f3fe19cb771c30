package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// bf16Activations reads --activations of commands that run a forward pass.
func bf16Activations(name string) (bool, error) {
	switch name {
	case "f32":
		return false, nil
	case "bf16":
		return true, nil
	}
	return false, usage(fmt.Errorf("--activations %q is none of f32, bf16", name))
}

// hiddenCache is where forward passes keep what can be used again; "" where the user
// has no cache folder, and nothing is kept.
func hiddenCache() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "quantscope", "hidden")
}
