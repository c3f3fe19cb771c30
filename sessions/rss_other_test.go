//go:build !linux

package sessions

func peakRSS() int64 { return 0 }

func resetPeak() {}
