package api

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"
)

func TestU64(t *testing.T) {
	for text, want := range map[string]string{
		`"0"`: "0", `"18446744073709551615"`: fmt.Sprint(uint64(math.MaxUint64)), `"\u0031"`: "1",
		`7`: "", `null`: "", `""`: "", `"-1"`: "", `"x"`: "", `"18446744073709551616"`: "", `["1"]`: "",
	} {
		var d struct{ N U64 }
		err := json.Unmarshal([]byte(`{"N":`+text+`}`), &d)
		if (err != nil) != (want == "") || err == nil && fmt.Sprint(uint64(d.N)) != want {
			t.Errorf("%s: %d, %v", text, d.N, err)
		}
		if b, err := json.Marshal(d.N); want != "" && (err != nil || string(b) != `"`+want+`"`) {
			t.Errorf("%s: written as %s, %v", text, b, err)
		}
	}
}
