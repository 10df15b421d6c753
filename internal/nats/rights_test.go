package nats

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

func TestFiles(t *testing.T) { rights(newWorld(t, files)) }

// rights checks what hosts, operators and others can do.
func rights(w *world) {
	w.connect("admin").streams()
	for name, check := range map[string]func(*world){
		"unknown": unknown, "host": host, "operator": operator, "command": command, "receipt": receipt, "presence": presence, "forged": forged,
	} {
		w.Run(name, func(t *testing.T) {
			own := *w
			own.T = t
			check(&own)
		})
	}
}

// unknown: without a key that it knows, the server takes nobody.
func unknown(w *world) {
	w.key("stranger")
	for name, opt := range map[string]nats.Option{"nobody": nats.Name("x"), "password": nats.UserInfo("admin", "admin"), "key": w.creds["stranger"]} {
		if _, err := w.dial(opt); err == nil || !strings.Contains(err.Error(), "Authorization Violation") {
			w.Errorf("%s: %v", name, err)
		}
	}
}

// limits checks which subjects a user may publish under, and which it may hear.
func limits(w *world, user, publish, subscribe, neither string) {
	w.Helper()
	p := w.connect(user)
	for s := range strings.FieldsSeq(publish) {
		w.must(p.Publish(s, nil))
	}
	for s := range strings.FieldsSeq(subscribe) {
		p.hears(s)
	}
	w.must(p.Flush(), p.LastError())
	for s := range strings.FieldsSeq(neither) {
		if !strings.Contains(s, "*") && !strings.Contains(s, ">") && !slices.Contains(strings.Fields(publish), s) {
			w.must(p.Publish(s, nil))
			if !strings.Contains(p.violates(1), "Permissions Violation for Publish") {
				w.Errorf("%s may publish %s", user, s)
			}
		}
		if !slices.Contains(strings.Fields(subscribe), s) {
			if p.hears(s); !strings.Contains(p.violates(1), "Permissions Violation for Subscription") {
				w.Errorf("%s may hear %s", user, s)
			}
		}
	}
}

// others are subjects, of which a user has some at most.
const others = `x _INBOX.x _INBOX.web1.x _INBOX.web2.x _INBOX.ann.x _INBOX.ben.x _R_.x
	lin.h.web1.cmd lin.h.web1.ask lin.h.web1.receipt lin.h.web1.x lin.h.web2.cmd lin.h.web2.ask lin.h.web2.receipt lin.h.web1.cmd.x
	$KV.LIN_HOSTS.web1 $KV.LIN_HOSTS.web2 $KV.LIN_HOSTS.web1.x $KV.X.web1 $SYS.REQ.SERVER.PING $SYS.REQ.USER.INFO $JS.ACK.x
	$JS.API.INFO $JS.API.STREAM.NAMES $JS.API.STREAM.LIST $JS.API.STREAM.DELETE.LIN_RECEIPTS $JS.API.STREAM.PURGE.KV_LIN_HOSTS $JS.API.STREAM.CREATE.X
	$JS.API.STREAM.UPDATE.LIN_RECEIPTS $JS.API.STREAM.INFO.LIN_RECEIPTS $JS.API.STREAM.MSG.GET.LIN_RECEIPTS $JS.API.STREAM.MSG.DELETE.LIN_RECEIPTS
	$JS.API.STREAM.SNAPSHOT.LIN_RECEIPTS $JS.API.CONSUMER.CREATE.LIN_RECEIPTS $JS.API.CONSUMER.DURABLE.CREATE.LIN_RECEIPTS.x
	$JS.API.DIRECT.GET.LIN_RECEIPTS $JS.API.DIRECT.GET.LIN_RECEIPTS.lin.h.web1.receipt $JS.API.DIRECT.GET.LIN_RECEIPTS.lin.h.web2.receipt
	$JS.API.DIRECT.GET.KV_LIN_HOSTS $JS.API.DIRECT.GET.KV_LIN_HOSTS.$KV.LIN_HOSTS.web1`

// wild are subjects that nobody may hear.
const wild = ` > *.> lin.> lin.h.> lin.h.*.cmd lin.h.*.ask lin.h.*.receipt lin.h.web1.* lin.h.web1.> $KV.> $JS.> $SYS.> _INBOX.> _INBOX.* _R_.>`

func host(w *world) {
	limits(w, "web1", "lin.h.web1.receipt $KV.LIN_HOSTS.web1 $JS.API.DIRECT.GET.LIN_RECEIPTS.lin.h.web1.receipt",
		"lin.h.web1.cmd lin.h.web1.ask _INBOX.web1.x", others+wild)
}

func operator(w *world) {
	limits(w, "ann", "lin.h.web1.cmd lin.h.web2.cmd lin.h.web1.ask lin.h.web2.ask $JS.API.DIRECT.GET.LIN_RECEIPTS $JS.API.DIRECT.GET.KV_LIN_HOSTS",
		"_INBOX.ann.x", others+wild)
	ann := w.connect("ann")
	if _, err := ann.Request("lin.h.web9.cmd", nil, 5*time.Second); err != nats.ErrNoResponders {
		w.Errorf("a host that is not there: %v", err)
	}
}

// command: a host takes what is for it, and answers as often as it likes, to the operator that asked.
func command(w *world) {
	web1, web2, ann, ben := w.connect("web1"), w.connect("web2"), w.connect("ann"), w.connect("ben")
	for _, what := range []string{"cmd", "ask"} {
		came, other := web1.hears("lin.h.web1."+what), web2.hears("lin.h.web2."+what)
		answers, none := ann.hears("_INBOX.ann.answers."+what), ben.hears("_INBOX.ben.>")
		w.must(ann.PublishRequest("lin.h.web1."+what, answers.Subject, []byte("x")))
		m, err := came.NextMsg(5 * time.Second)
		w.must(err)
		for range 2 {
			w.must(web1.Publish(m.Reply, []byte("y")))
		}
		w.must(web1.Flush(), web1.LastError())
		for range 2 {
			if m, err := answers.NextMsg(5 * time.Second); err != nil || string(m.Data) != "y" {
				w.Errorf("answer %v, %v", m, err)
			}
		}
		w.must(ben.Flush(), web2.Flush())
		for _, s := range []*nats.Subscription{answers, none, other} {
			if n, _, _ := s.Pending(); n != 0 {
				w.Errorf("%d messages too many under %s", n, s.Subject)
			}
		}
		w.must(web2.Publish(m.Reply, []byte("z")))
		if !strings.Contains(web2.violates(1), "Permissions Violation") {
			w.Error("a host answers what it was not asked")
		}
	}
}

// receipt: a host stores receipts and reads its newest; an operator reads all. Nobody changes or deletes one.
func receipt(w *world) {
	for _, name := range []string{"web1", "web2"} {
		p, m := w.connect(name), nats.NewMsg("lin.h."+name+".receipt")
		m.Header.Set(nats.MsgIdHdr, name+"/1")
		m.Header.Set(nats.ExpectedStreamHdr, "LIN_RECEIPTS")
		m.Data = []byte(name)
		reply, err := p.RequestMsg(m, 5*time.Second)
		w.must(err)
		if !strings.HasPrefix(string(reply.Data), `{"stream":"LIN_RECEIPTS","seq":`) {
			w.Errorf("%s: %s", name, reply.Data)
		}
		last, err := p.Request("$JS.API.DIRECT.GET.LIN_RECEIPTS."+m.Subject, nil, 5*time.Second)
		w.must(err)
		if string(last.Data) != name || last.Header.Get(nats.MsgIdHdr) != name+"/1" {
			w.Errorf("%s: %+v", name, last)
		}
	}
	got := w.connect("ann").all("LIN_RECEIPTS", `{"seq":1,"batch":100,"next_by_subj":"lin.h.*.receipt"}`)
	if got["lin.h.web1.receipt"] != "web1" || got["lin.h.web2.receipt"] != "web2" {
		w.Errorf("the operator reads %v", got)
	}
	admin := w.connect("admin")
	for what, body := range map[string]string{"MSG.DELETE": `{"seq":1}`, "PURGE": ""} {
		if r := admin.api("STREAM."+what+".LIN_RECEIPTS", body); r.Error == nil {
			w.Errorf("%s is not refused", what)
		}
	}
}

// all reads several messages of a stream, by their subject.
func (p *peer) all(stream, request string) map[string]string {
	p.w.Helper()
	answers := p.hears(p.NewInbox())
	p.w.must(p.PublishRequest("$JS.API.DIRECT.GET."+stream, answers.Subject, []byte(request)))
	got := make(map[string]string)
	for {
		m, err := answers.NextMsg(5 * time.Second)
		p.w.must(err)
		if m.Header.Get("Status") != "" { // 204: these were all
			return got
		}
		got[m.Header.Get("Nats-Subject")] = string(m.Data)
	}
}

// presence: a host says that it is there, for a while; it removes no other.
func presence(w *world) {
	web1, web2, ann := w.connect("web1"), w.connect("web2"), w.connect("ann")
	store := func(p *peer, subject string, header ...string) (ack struct {
		Stream string
		Error  *struct{ Description string }
	}) {
		m := nats.NewMsg(subject)
		m.Data = []byte(`{"kind":"host"}`)
		m.Header.Set(header[0], header[1])
		reply, err := p.RequestMsg(m, 5*time.Second)
		w.must(err)
		w.must(json.Unmarshal(reply.Data, &ack))
		return ack
	}
	for p, subject := range map[*peer]string{web1: "$KV.LIN_HOSTS.web1", web2: "$KV.LIN_HOSTS.web2"} {
		if ack := store(p, subject, "Nats-TTL", "90s"); ack.Stream != "KV_LIN_HOSTS" {
			w.Errorf("%+v", ack)
		}
	}
	there := func() map[string]string {
		return ann.all("KV_LIN_HOSTS", `{"multi_last":["$KV.LIN_HOSTS.*"],"batch":100}`)
	}
	for _, header := range [][]string{{"Nats-Rollup", "all"}, {"Nats-Rollup", "sub"}, {"Nats-TTL", "-1s"}, {"Nats-Schedule", "@every 1s"}, {"Nats-Incr", "+1"}} {
		if ack := store(web1, "$KV.LIN_HOSTS.web1", header...); ack.Error == nil {
			w.Errorf("%q: %+v", header, ack)
		}
	}
	if got := there(); len(got) != 2 {
		w.Errorf("there are %v", got)
	}
	if ack := store(web1, "$KV.LIN_HOSTS.web1", "Nats-TTL", "1s"); ack.Error != nil {
		w.Errorf("%+v", ack)
	}
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		if got := there(); len(got) == 1 && got["$KV.LIN_HOSTS.web2"] != "" {
			break
		} else if time.Since(began) > 20*time.Second {
			w.Fatalf("still there: %v", got)
		}
	}
}

// forged: nobody makes a message of a host by having an answer sent there.
func forged(w *world) {
	web1, ann, admin := w.connect("web1"), w.connect("ann"), w.connect("admin")
	if _, err := web1.Request("lin.h.web1.receipt", []byte(`{"host":"web3"}`), 5*time.Second); err != nil {
		w.Fatal(err)
	}
	heard := w.connect("web2")
	cmd, ask := heard.hears("lin.h.web2.cmd"), heard.hears("lin.h.web2.ask")
	for _, to := range []string{"lin.h.web3.receipt", "$KV.LIN_HOSTS.web3", "lin.h.web2.cmd", "lin.h.web2.ask"} {
		w.must(web1.PublishRequest("lin.h.web1.receipt", to, []byte("x")),
			web1.PublishRequest("$KV.LIN_HOSTS.web1", to, []byte("x")),
			web1.PublishRequest("$JS.API.DIRECT.GET.LIN_RECEIPTS.lin.h.web1.receipt", to, nil), web1.Flush(),
			ann.PublishRequest("$JS.API.DIRECT.GET.LIN_RECEIPTS", to, []byte(`{"seq":1}`)), ann.Flush())
	}
	for range 20 { // each request comes after all that the server had to do for the others
		_, err := web1.Request("$JS.API.DIRECT.GET.LIN_RECEIPTS.lin.h.web1.receipt", nil, 5*time.Second)
		w.must(err)
		time.Sleep(10 * time.Millisecond)
	}
	for _, stream := range []string{"LIN_RECEIPTS", "KV_LIN_HOSTS"} {
		r := admin.api("STREAM.INFO."+stream, `{"subjects_filter":">"}`)
		if n := r.State.Subjects["lin.h.web3.receipt"] + r.State.Subjects["$KV.LIN_HOSTS.web3"]; n != 0 || len(r.State.Subjects) == 0 {
			w.Errorf("%s: %v", stream, r.State.Subjects)
		}
	}
	w.must(heard.Flush())
	for _, s := range []*nats.Subscription{cmd, ask} { // such messages come to another host, but its answer would go nowhere
		for n, _, _ := s.Pending(); n > 0; n-- {
			if m, err := s.NextMsg(time.Second); err != nil || m.Reply != "" && !strings.HasPrefix(m.Reply, "_R_.") {
				w.Errorf("%s: %v, %v", s.Subject, m, err)
			}
		}
	}
}
