package tui

import "strings"

// PaneID names a pane of the workbench.
type PaneID uint8

// Panes.
const (
	PaneMap PaneID = iota
	PaneDetail
	PaneWorst
	PaneClipping
	PaneLandscape
	PaneCompare
	PaneKL
	PaneBias
	PaneGates
	PaneAudit
	PaneLog
	PaneTensor
	paneCount
)

// paneNames are what help calls the panes.
var paneNames = [paneCount]string{"Map", "Detail", "Worst", "Clipping", "Landscape", "Compare", "KL", "Bias", "Gates", "Audit", "Log", "Tensor"}

// Screen is what fills the body.
type Screen uint8

// Screens 1 to 8 are those of the tabs. The tensor screen is reached by
// drilling down and left by going back.
const (
	ScreenMap Screen = iota + 1
	ScreenClipping
	ScreenLandscape
	ScreenCompare
	ScreenKL
	ScreenGates
	ScreenAudit
	ScreenLog
	ScreenTensor
)

// screenInfo describes a screen. One with absent set cannot be opened, for that
// reason.
type screenInfo struct {
	screen Screen
	name   string
	panes  []PaneID // in the order of the focus, the first is the screen's own
	absent string
}

var screenTable = []screenInfo{
	{ScreenMap, "Map", []PaneID{PaneMap, PaneDetail, PaneWorst}, ""},
	{ScreenClipping, "Clipping", []PaneID{PaneClipping}, ""},
	{ScreenLandscape, "Landscape", []PaneID{PaneLandscape}, ""},
	{ScreenCompare, "Compare", []PaneID{PaneCompare}, ""},
	{ScreenKL, "KL", []PaneID{PaneKL, PaneBias}, ""},
	{ScreenGates, "Gates", []PaneID{PaneGates}, ""},
	{ScreenAudit, "Audit", []PaneID{PaneAudit}, ""},
	{ScreenLog, "Log", []PaneID{PaneLog}, ""},
	{ScreenTensor, "Tensor", []PaneID{PaneTensor}, ""},
}

func (s Screen) info() screenInfo {
	if s < ScreenMap || s > ScreenTensor {
		s = ScreenMap
	}
	return screenTable[s-1]
}

// Panes are the panes of a screen; a screen that this version lacks shows those
// of the map.
func (s Screen) Panes() []PaneID {
	if p := s.info().panes; p != nil {
		return p
	}
	return ScreenMap.info().panes
}

// String is the screen's name.
func (s Screen) String() string { return s.info().name }

// ScreenByName finds a screen that can be opened from its tab, by name in lower
// case; the second result lists the known names.
func ScreenByName(name string) (Screen, []string, bool) {
	var known []string
	for _, i := range screenTable {
		if i.absent != "" || i.screen == ScreenTensor {
			continue
		}
		lower := strings.ToLower(i.name)
		if lower == name {
			return i.screen, nil, true
		}
		known = append(known, lower)
	}
	return 0, known, false
}
