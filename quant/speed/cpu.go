package speed

import (
	"os"
	"runtime"
	"strings"
)

// cpuName is what the system calls the processor, the architecture where it
// does not say.
func cpuName() string {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err == nil {
		for line := range strings.Lines(string(info)) {
			if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
				return strings.TrimSpace(value)
			}
		}
	}
	return runtime.GOARCH
}
