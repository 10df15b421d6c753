package text

import (
	"testing"

	"github.com/lineage-ebpf/lineage/api"
)

func TestGrowthText(t *testing.T) {
	for want, of := range map[string][2]float64{
		"no growth": {0, 1000}, "+20 processes/h, +7.0GiB/h": {20, 7 << 30}, "-0.5 processes/h": {-0.5, 0}, "+1 process/h": {1, 0}, "+590 processes/h": {590.14, 0}, "+99.9 processes/h, -3.0MiB/h": {99.91, -3 << 20},
	} {
		if got := growthText(&api.Growth{Known: true, ProcessesPerHour: &of[0], BytesPerHour: &of[1]}); got != want {
			t.Errorf("%v: %q, want %q", of, got, want)
		}
	}
}

func TestHoursText(t *testing.T) {
	for h, want := range map[float64]string{
		0: "0 minutes", 0.02: "1 minute", 0.99: "59 minutes", 1: "1 h", 1.53: "1.5 h", 1.99: "1.9 h", 9.99: "9.9 h", 10.9: "10 h", 71.9: "71 h", 95: "3 days",
	} {
		if got := hoursText(h); got != want {
			t.Errorf("%v: %q, want %q", h, got, want)
		}
	}
}
