//go:build man

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lineage-ebpf/lineage/cmd/lineage/cli"
)

// main of the build with the tag man writes the manual pages of the same commands into
// the folder that is its argument; of all except completion, which an install takes
// care of. Their date is SOURCE_DATE_EPOCH if that is set, so that two builds make the
// same pages. The pages of sections 5 and 7 are in packaging/man.
func main() {
	if err := writePages(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "man:", err)
		os.Exit(1)
	}
}

func writePages(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("want one argument, the folder")
	}
	date := time.Now()
	if s, ok := os.LookupEnv("SOURCE_DATE_EPOCH"); ok {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return fmt.Errorf("read SOURCE_DATE_EPOCH: %w", err)
		}
		date = time.Unix(n, 0)
	}
	if err := os.MkdirAll(args[0], 0o755); err != nil {
		return fmt.Errorf("make the folder: %w", err)
	}
	a := &app{
		Console: cli.Console{Stdout: os.Stdout, Stderr: os.Stderr, Env: func(string) string { return "" }},
		host:    thisHost(),
	}
	root := a.root()
	m := manual{dir: args[0], date: date.UTC().Format(time.DateOnly), about: map[string]string{}}
	for _, topic := range cli.HelpTopics() {
		m.about[topic.Name()] = topic.Long
	}
	return m.write(root)
}

// manual writes pages with the macros of man(7).
type manual struct {
	dir, date string
	about     map[string]string // the topics of help
}

// write writes the page of a command and those of the commands below it.
func (m *manual) write(cmd *cobra.Command) error {
	for _, c := range cmd.Commands() {
		if c.Name() == "completion" || c.Name() == "help" || c.DisableFlagParsing || !c.Runnable() {
			continue
		}
		if err := m.write(c); err != nil {
			return err
		}
	}
	path := filepath.Join(m.dir, page(cmd)+"."+section(cmd))
	if err := os.WriteFile(path, []byte(m.page(cmd)), 0o644); err != nil {
		return fmt.Errorf("write a page: %w", err)
	}
	return nil
}

func page(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

func section(cmd *cobra.Command) string {
	if cmd.Name() == "daemon" {
		return "8"
	}
	return "1"
}

func (m *manual) page(cmd *cobra.Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %s %s %q %q %q\n", strings.ToUpper(page(cmd)), section(cmd), m.date, "lineage "+version, "lineage")
	short := []rune(cmd.Short)
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(page(cmd)), roff(strings.ToLower(string(short[:1]))+string(short[1:])))
	b.WriteString(".SH SYNOPSIS\n")
	if cmd.HasSubCommands() {
		fmt.Fprintf(&b, "\\fB%s\\fR \\fICOMMAND\\fR [\\fIOPTION\\fR...]\n", roff(cmd.CommandPath()))
	} else {
		arguments := strings.TrimSpace(strings.TrimPrefix(cmd.Use, cmd.Name()))
		arguments = strings.TrimSpace(strings.TrimPrefix(arguments, "[flags]"))
		fmt.Fprintf(&b, "\\fB%s\\fR [\\fIOPTION\\fR...] %s\n", roff(cmd.CommandPath()), roff(arguments))
	}
	b.WriteString(".SH DESCRIPTION\n")
	prose(&b, cmd.Long)
	if cmd.Long == "" {
		prose(&b, cmd.Short+".")
	}
	if more := cmd.Annotations[cli.Manual]; more != "" {
		prose(&b, more)
	}
	if cmd.HasSubCommands() {
		b.WriteString(".SH COMMANDS\n")
		for _, c := range cmd.Commands() {
			if c.Name() != "help" && !c.DisableFlagParsing && c.Runnable() {
				fmt.Fprintf(&b, ".TP\n\\fB%s\\fR\n%s.\n", roff(c.Name()), roff(c.Short))
			}
		}
	}
	b.WriteString(".SH OPTIONS\n")
	cmd.InitDefaultHelpFlag()
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) { option(&b, f) })
	cmd.InheritedFlags().VisitAll(func(f *pflag.Flag) { option(&b, f) })
	b.WriteString(".SH EXAMPLES\n")
	literal(&b, cmd.Example)
	for _, topic := range []struct{ title, name string }{{"EXIT STATUS", "exit-codes"},
		{"ENVIRONMENT", "environment"}, {"FILES", "files"}} {
		fmt.Fprintf(&b, ".SH %s\n", topic.title)
		prose(&b, m.about[topic.name])
	}
	b.WriteString(".SH SEE ALSO\n")
	b.WriteString(seeAlso(cmd))
	return b.String()
}

// seeAlso names related pages.
func seeAlso(cmd *cobra.Command) string {
	names := []string{`\fBlineage\fR(7)`, `\fBlineage\-policy\fR(5)`}
	if parent := cmd.Parent(); parent != nil {
		names = append([]string{fmt.Sprintf(`\fB%s\fR(%s)`, roff(page(parent)), section(parent))}, names...)
	}
	for _, c := range cmd.Commands() {
		if c.Name() != "help" && c.Name() != "completion" && c.Runnable() {
			names = append(names, fmt.Sprintf(`\fB%s\fR(%s)`, roff(page(c)), section(c)))
		}
	}
	return strings.Join(names, ",\n") + "\n"
}

// option writes one flag.
func option(b *strings.Builder, f *pflag.Flag) {
	value, usage := pflag.UnquoteUsage(f)
	name := `\fB` + roff("--"+f.Name) + `\fR`
	if f.Shorthand != "" {
		name = `\fB` + roff("-"+f.Shorthand) + `\fR, ` + name
	}
	if value != "" {
		name += ` \fI` + roff(value) + `\fR`
	}
	switch f.DefValue {
	case "", "false", "0", "0s", "[]":
	case "true":
		name = `\fB` + roff("--"+f.Name) + `\fR[=false]`
		usage += " (default true)"
	default:
		usage += " (default " + f.DefValue + ")"
	}
	first := []rune(usage)
	fmt.Fprintf(b, ".TP\n%s\n%s.\n", name, roff(strings.ToUpper(string(first[:1]))+string(first[1:])))
}

// prose writes paragraphs, separated by empty lines. One with columns is a list of terms.
func prose(b *strings.Builder, text string) {
	for _, paragraph := range strings.Split(text, "\n\n") {
		if strings.Contains(paragraph, "   ") {
			terms(b, paragraph)
			continue
		}
		b.WriteString(".PP\n")
		for line := range strings.SplitSeq(paragraph, "\n") {
			b.WriteString(roff(line) + "\n")
		}
	}
}

// terms writes a list with a term at the beginning of each line and, after blanks, what it is. A
// line that begins with more blanks than the first continues the one before.
func terms(b *strings.Builder, text string) {
	indent := text[:len(text)-len(strings.TrimLeft(text, " "))]
	for line := range strings.SplitSeq(text, "\n") {
		line, about := strings.TrimPrefix(line, indent), ""
		if !strings.HasPrefix(line, " ") {
			line, about, _ = strings.Cut(line, "  ")
			b.WriteString(".TP\n\\fB" + roff(line) + "\\fR\n")
			line = about
		}
		if line = strings.TrimSpace(line); line != "" {
			b.WriteString(roff(line) + "\n")
		}
	}
}

// literal writes lines as they are.
func literal(b *strings.Builder, text string) {
	b.WriteString(".PP\n.nf\n")
	for line := range strings.SplitSeq(text, "\n") {
		b.WriteString(roff(strings.TrimPrefix(line, "  ")) + "\n")
	}
	b.WriteString(".fi\n")
}

// roff escapes characters that roff would interpret.
func roff(line string) string {
	line = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`).Replace(line)
	if strings.HasPrefix(line, ".") {
		line = `\&` + line
	}
	return line
}
