package text

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
)

func Policy(doc *api.Policy) *Listing {
	doc.Head = api.NewHead("policy")
	l := &Listing{Doc: doc, Text: func(p *Page) { writePolicy(p, doc) }}
	for _, v := range doc.Items {
		v.Kind = "policy_value"
		l.add(v, v.Key)
	}
	return l
}

func writePolicy(p *Page, doc *api.Policy) {
	if doc.Refused != "" {
		p.Wrap(0, p.paint(red, "the file was not accepted: "+display.Text(doc.Refused)))
	}
	if len(doc.NeedsRestart) > 0 {
		p.Wrap(0, p.paint(yellow, "needs restart: "+display.Text(strings.Join(doc.NeedsRestart, ", "))))
	}
	if doc.Breaker.Open {
		p.Wrap(0, p.paint(red, display.Breaker(doc.Breaker)+
			`: their sessions are only observed, until "lineage policy resume"`))
	}
	var t table
	t.row("KEY", "VALUE", "ORIGIN")
	for _, v := range doc.Items {
		value := display.Text(valueText(v.Value))
		if !p.Wide {
			value = Fit(value, 60)
		}
		t.row(v.Key, value, v.Origin)
	}
	t.write(p)
}

// valueText is a value as a policy file may contain it.
func valueText(v any) string {
	if s, ok := v.(string); ok && s != "" {
		return s
	}
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}

func Explain(doc *api.PolicyExplain) *Listing {
	doc.Head = api.NewHead("policy_explain")
	l := &Listing{Doc: doc, Text: func(p *Page) { writeExplain(p, doc) }}
	for _, r := range doc.Items {
		r.Kind = "policy_rule"
		l.add(r, r.Rule)
	}
	return l
}

func writeExplain(p *Page, doc *api.PolicyExplain) {
	of := "of no session"
	if doc.Process.Session != "" {
		of = "session " + display.Text(doc.Process.Session)
	}
	p.Line("%s", p.paint(bold, fmt.Sprintf("%s %s: %s", Ref(p, doc.Process.Ref), p.Command(&doc.Process), of)))
	if len(doc.Items) == 0 {
		p.Line("  no rule matches it")
	}
	for _, r := range doc.Items {
		from := display.Text(r.Origin)
		if r.Reason != "" {
			from += ", " + display.Text(r.Reason)
		}
		p.Wrap(2, fmt.Sprintf("%s (%s): %s", display.Text(r.Rule), from, display.Text(r.Effect)))
	}
}
