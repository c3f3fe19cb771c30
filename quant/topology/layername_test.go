package topology

import "testing"

func TestLayerName(t *testing.T) {
	for _, c := range []struct {
		role Role
		want string
	}{
		{Role{}, "L0"}, {Role{Layer: 12}, "L12"}, {Role{Layer: 46, MTP: true}, "M46"},
		{Role{Layer: -1}, "no layer"}, {Role{Layer: -1, MTP: true}, "no layer"},
	} {
		if got := c.role.LayerName(); got != c.want {
			t.Errorf("%+v: %q, want %q", c.role, got, c.want)
		}
	}
}
