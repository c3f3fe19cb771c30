package topology

import "testing"

// What a quantized weight is stored as, in the layouts that are written here,
// belongs to its matrix and is nothing unknown.
func TestStoredFieldsAreKnown(t *testing.T) {
	for _, field := range []string{
		"weight_packed", "weight_scale", "weight_scale_2", "weight_global_scale", "weight_zero_point", "weight_shape", "weight_min",
	} {
		name := "model.layers.0.mlp.up_proj." + field
		m, err := FromConfig([]byte(`{"model_type":"llama","hidden_size":32}`), []Named{{Name: name, DType: "U8", Shape: []int64{32, 16}}})
		if err != nil {
			t.Fatal(err)
		}
		if len(m.Unknown) > 0 || m.Roles[0].Projection != "up" || m.Roles[0].Param != field {
			t.Errorf("%s: %+v, unknown %v", name, m.Roles[0], m.Unknown)
		}
	}
}
