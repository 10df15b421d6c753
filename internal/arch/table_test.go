package arch

// mayImport has, for each package, the packages of ours that it may import. The
// arrows point one way: cmd, tui → api ← daemon → enforcer → tracer → bpf, and
// daemon, tracer → lineage.
var mayImport = map[string]string{
	"api/display":           "api",
	"cmd/lineage":           "api api/display cmd/lineage/supervise cmd/lineage/urgent daemon daemon/canary daemon/instance daemon/replay enforcer/policy tracer tui",
	"cmd/lineage/supervise": "api api/display cmd/lineage/supervise/shim tracer/procfs",
	"daemon":                "api daemon/access daemon/audit daemon/broker daemon/canary daemon/document daemon/instance daemon/journal daemon/logging daemon/metrics daemon/privilege daemon/resources enforcer enforcer/policy lineage tracer tracer/procfs",
	"daemon/access":         "tracer",
	"daemon/audit":          "api",
	"daemon/document":       "api daemon/resources lineage tracer",
	"daemon/instance":       "api",
	"daemon/journal":        "tracer",
	"daemon/metrics":        "daemon/logging",
	"daemon/replay":         "api",
	"daemon/resources":      "tracer",
	"enforcer":              "api tracer tracer/procfs",
	"enforcer/kerneltest":   "tracer",
	"internal/bench":        "api internal/page tracer",
	"internal/e2e/stage":    "api tracer/tracertest",
	"internal/vm/boot":      "internal/vm/guest",
	"internal/vm/init":      "internal/vm/guest",
	"internal/vm/matrix":    "api internal/page internal/vm/boot internal/vm/guest",
	"internal/vm/vmrun":     "internal/vm/boot internal/vm/guest",
	"tracer":                "bpf lineage",
	"tracer/tracertest":     "tracer",
	"tui":                   "api api/display tui/picture",
	"tui/picture":           "api api/display",
}

// overLimit has what exceeds a limit, with its present size. These numbers only
// go down.
var overLimit = map[string]int{
	"embedded pointer daemon.brokers *server":                1,
	"embedded pointer daemon.pastReader *stream":             1,
	"embedded pointer daemon.proof *claimant":                1,
	"embedded pointer daemon.sender *server":                 1,
	"embedded pointer internal/bench.kernel *Tracer":         1,
	"embedded pointer internal/bench.metered *kernel":        1,
	"embedded pointer internal/bench.stand *metered":         1,
	"embedded pointer internal/e2e/stage.Bystander *Process": 1,
	"embedded pointer internal/e2e/stage.Terminal *Instance": 1,
	"file enforcer/kerneltest/kernel.go":                     407,
	"file internal/bench/pages.go":                           429,
	"file tracer/elder.go":                                   450,
	"methods in files cmd/lineage.app":                       23,
	"methods in files daemon.owner":                          26,
	"methods in files daemon.server":                         41,
	"methods in files lineage.Graph":                         10,
	"methods in files tracer.Tracer":                         18,
	"methods in files tui.model":                             13,
	"package files cmd/lineage":                              30,
	"package files daemon":                                   70,
	"package files tracer":                                   29,
	"package lines cmd/lineage":                              4500,
	"package lines daemon":                                   11900,
	"package lines tracer":                                   4400,
	"package lines tui":                                      3200,
	"struct daemon.owner":                                    50,
	"struct daemon.server":                                   43,
	"struct daemon.session":                                  28,
	"struct enforcer/kerneltest.Kernel":                      22,
	"struct lineage.Node":                                    29,
	"struct lineage.node":                                    46,
	"struct tui.model":                                       32,
}

// wideStructs have as many fields as what they describe: documents on the wire,
// records of the kernel, tables of keys and signs.
var wideStructs = map[string]bool{
	"api.Leak":           true,
	"api.Process":        true,
	"api.Report":         true,
	"api.Session":        true,
	"tracer.Event":       true,
	"tracer.Process":     true,
	"tracer.SessionInfo": true,
	"tui.KeyMap":         true,
	"tui.glyphs":         true,
	"tui/picture.Row":    true,
}
