package text

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
)

// HostAnswer is the answer of one of many hosts, or its error. It may have both.
type HostAnswer struct {
	Host    string
	Listing *Listing // nil: only Err
	Err     error
	Exit    int // the exit code that belongs to Err
}

type hostItem struct {
	api.Head
	Host     string `json:"host"`
	Error    string `json:"error,omitempty"`
	Exit     int    `json:"exit"` // the command's exit code if it asked this host alone
	Document any    `json:"document,omitempty"`
}

// Hosts merges the answers of many hosts. Tables become one table with the column HOST;
// items and names get the field host.
func Hosts(answers []HostAnswer) *Listing {
	doc := documents[hostItem]{api.NewHead("hosts"), []hostItem{}}
	l := &Listing{}
	for i := range answers {
		a := &answers[i]
		item := hostItem{Host: a.Host, Exit: a.Exit}
		if a.Listing != nil {
			item.Document = a.Listing.Doc
			for _, it := range a.Listing.Items {
				l.Items = append(l.Items, hostedItem{a.Host, it})
			}
			for _, name := range a.Listing.Names {
				l.Names = append(l.Names, a.Host+" "+name)
			}
		}
		if a.Err != nil {
			item.Error = a.Err.Error()
			l.Items = append(l.Items, hostItem{Head: api.Head{Kind: "error"}, Host: a.Host,
				Error: item.Error, Exit: a.Exit})
		}
		doc.Items = append(doc.Items, item)
	}
	l.Doc = doc
	l.Text = func(p *Page) { writeHosts(p, answers) }
	return l
}

// hostedItem is an item of a host's answer, with the host as first field.
type hostedItem struct {
	host string
	item any
}

func (h hostedItem) MarshalJSON() ([]byte, error) {
	var item bytes.Buffer
	enc := json.NewEncoder(&item)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(h.item); err != nil {
		return nil, err
	}
	host, err := json.Marshal(h.host)
	if err != nil {
		return nil, err
	}
	fields := bytes.TrimPrefix(bytes.TrimSpace(item.Bytes()), []byte("{"))
	if !bytes.Equal(fields, []byte("}")) {
		host = append(host, ',')
	}
	return slices.Concat([]byte(`{"host":`), host, fields), nil
}

// writeHosts draws tables as one table, other output below the name of its host, and
// errors at the end.
func writeHosts(p *Page, answers []HostAnswer) {
	var all *table
	wide := 0
	for i := range answers {
		a := &answers[i]
		wide = max(wide, width(display.Text(a.Host)))
		switch {
		case a.Listing == nil:
		case a.Listing.table == nil:
			p.Line("%s", p.paint(bold, "HOST "+display.Text(a.Host)))
			q := *p
			q.Host = a.Host
			a.Listing.Text(&q)
			p.Line("")
		default:
			t := a.Listing.table(p)
			t.prepend("HOST", display.Text(a.Host))
			if all == nil {
				all = &t
			} else {
				all.rows, all.colors = append(all.rows, t.rows[1:]...), append(all.colors, t.colors[1:]...)
			}
		}
	}
	if all != nil {
		q := *p
		if len(q.Columns) > 0 { // of the table of one host
			q.Columns = append([]string{"host"}, q.Columns...)
		}
		all.write(&q)
	}
	for i := range answers {
		if a := &answers[i]; a.Err != nil {
			host := Fit(display.Text(a.Host), wide)
			p.column(host+strings.Repeat(" ", wide-width(host))+gap, wide+len(gap),
				p.paint(red, "error: "+display.Error(a.Err)))
		}
	}
}

// prepend adds a column before the others.
func (t *table) prepend(header, cell string) {
	for i := range t.rows {
		t.rows[i] = slices.Insert(t.rows[i], 0, cell)
		t.colors[i] = slices.Insert(t.colors[i], 0, "")
	}
	t.rows[0][0] = header
}
