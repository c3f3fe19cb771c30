package sessions

// CalibrationOptions say how calibrated variants are made.
type CalibrationOptions struct {
	Corpus string   // text, JSON lines, ids or the name of an embedded corpus; "": the embedded one for calibration, where the tokenizer is the demo's
	Chunk  int      // tokens of a chunk of a text; 0: 512
	Chunks int      // at most; 0: all
	File   string   // moments that were measured before: our own file or an imatrix; "": they are measured
	Only   []string // projections that are calibrated; nil: all
	Damp   float64  // 0: 0.01
	Codes  string   // folder of codes; "": beside the session, by the variant's name
	// FromCodes: the folder must be there; what is in it is not made again.
	FromCodes bool
}

// asks says whether anything of what decides a calibrated variant was given.
func (o *CalibrationOptions) asks() bool {
	return o.Corpus != "" || o.Chunk > 0 || o.Chunks > 0 || o.File != "" || o.Only != nil || o.Damp != 0
}
