//go:build amd64 && !noasm

package kernels

import "math"

// topBy is topRef where the maximum is known.
func topBy(x []float32, most float32, find func(x *float32, n int, v float32) int) (float32, int) {
	const step = 16 // of find
	if most != most {
		return most, 0
	}
	n := len(x) &^ (step - 1)
	if n > 0 {
		if i := find(&x[0], n, most); i >= 0 {
			return x[i], i
		}
	}
	for i := n; i < len(x); i++ {
		if x[i] == most {
			return x[i], i
		}
	}
	return most, 0 // not reached: most is in x
}

// lastLogits are the values behind the last whole group of lanes, filled up with
// logits that count for nothing.
func lastLogits(x []float32) (last [logitLanes]float32) {
	n := copy(last[:], x[len(x)&^(logitLanes-1):])
	for i := n; i < len(last); i++ {
		last[i] = float32(math.Inf(-1))
	}
	return last
}

func logSumVectorsAVX2(x []float32, m float64) float64 {
	var lanes [logitLanes]float64
	if n := len(x) &^ (logitLanes - 1); n > 0 {
		logSumAVX2(&x[0], n, m, &lanes[0])
	}
	if len(x)%logitLanes > 0 {
		last := lastLogits(x)
		logSumAVX2(&last[0], logitLanes, m, &lanes[0])
	}
	return logitTree(&lanes)
}

func logSumVectorsAVX512(x []float32, m float64) float64 {
	var lanes [logitLanes]float64
	if n := len(x) &^ (logitLanes - 1); n > 0 {
		logSumAVX512(&x[0], n, m, &lanes[0])
	}
	if len(x)%logitLanes > 0 {
		last := lastLogits(x)
		logSumAVX512(&last[0], logitLanes, m, &lanes[0])
	}
	return logitTree(&lanes)
}

// divergenceLanes are the lanes of divergenceRef's three sums.
type divergenceLanes [3][logitLanes]float64

func (l *divergenceLanes) sums() [3]float64 {
	return [3]float64{logitTree(&l[0]), logitTree(&l[1]), logitTree(&l[2])}
}

func divergenceVectorsAVX2(p, q []float32, by *divergenceOf) [3]float64 {
	var lanes divergenceLanes
	if n := len(p) &^ (logitLanes - 1); n > 0 {
		divergenceAVX2(&p[0], &q[0], n, &by.maxP, &lanes[0][0])
	}
	if len(p)%logitLanes > 0 {
		lastP, lastQ := lastLogits(p), lastLogits(q)
		divergenceAVX2(&lastP[0], &lastQ[0], logitLanes, &by.maxP, &lanes[0][0])
	}
	return lanes.sums()
}

func divergenceVectorsAVX512(p, q []float32, by *divergenceOf) [3]float64 {
	var lanes divergenceLanes
	if n := len(p) &^ (logitLanes - 1); n > 0 {
		divergenceAVX512(&p[0], &q[0], n, &by.maxP, &lanes[0][0])
	}
	if len(p)%logitLanes > 0 {
		lastP, lastQ := lastLogits(p), lastLogits(q)
		divergenceAVX512(&lastP[0], &lastQ[0], logitLanes, &by.maxP, &lanes[0][0])
	}
	return lanes.sums()
}
