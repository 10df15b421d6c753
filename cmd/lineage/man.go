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

	"github.com/lineage-ebpf/lineage/cmd/lineage/cli"
)

// main of the build with the tag man writes the manual pages of the commands into the folder that is its argument.
// Their date is SOURCE_DATE_EPOCH if that is set: two builds make the same pages. An install takes care of
// completion; the pages of sections 5 and 7 are in packaging/man.
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
	a := &app{Console: cli.Console{Env: func(string) string { return "" }}, host: thisHost()}
	return writeManual(a.root(), args[0], date.UTC().Format(time.DateOnly))
}

// writeManual writes the page of a command and those of the commands below it.
func writeManual(cmd *cobra.Command, dir, date string) error {
	for _, c := range cmd.Commands() {
		if c.Name() == "completion" || c.Name() == "help" || !c.Runnable() {
			continue
		}
		if err := writeManual(c, dir, date); err != nil {
			return err
		}
	}
	text, err := pageOf(cmd, date)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name(cmd)+"."+section(cmd)), []byte(text), 0o644)
	}
	if err != nil {
		return fmt.Errorf("write a page: %w", err)
	}
	return nil
}

func name(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

func section(cmd *cobra.Command) string {
	if cmd.Name() == "daemon" {
		return "8"
	}
	return "1"
}

func pageOf(cmd *cobra.Command, date string) (string, error) {
	var page, help strings.Builder
	short := []rune(cmd.Short)
	fmt.Fprintf(&page, ".TH %s %s %q %q %q\n", strings.ToUpper(name(cmd)), section(cmd),
		date, "lineage "+version, "lineage")
	fmt.Fprintf(&page, ".SH NAME\n%s \\- %s\n", roff(name(cmd)),
		roff(strings.ToLower(string(short[:1]))+string(short[1:])))
	cmd.Root().SetOut(&help)
	cmd.InitDefaultHelpFlag()
	if err := cmd.Help(); err != nil {
		return "", err
	}
	literal := func(title, text string) {
		fmt.Fprintf(&page, ".SH %s\n.nf\n.in 0\n%s\n.fi\n", title, roff(strings.TrimSpace(text)))
	}
	literal("DESCRIPTION", help.String())
	for _, topic := range cli.HelpTopics() {
		if topic.Name() != "selection" {
			literal(strings.ToUpper(strings.ReplaceAll(topic.Name(), "-", " ")), topic.Long)
		}
	}
	see := []string{`\fBlineage\fR(1)`, `\fBlineage\fR(7)`, `\fBlineage\-policy\fR(5)`}
	for _, c := range cmd.Commands() {
		if c.Name() != "help" && c.Name() != "completion" && c.Runnable() {
			see = append(see, fmt.Sprintf(`\fB%s\fR(%s)`, roff(name(c)), section(c)))
		}
	}
	page.WriteString(".SH SEE ALSO\n" + strings.Join(see, ",\n") + "\n")
	return page.String(), nil
}

// roff escapes what roff would interpret.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`,
		"^", `\(ha`, "~", `\(ti`).Replace(text)
	return strings.ReplaceAll(text, "\n.", "\n\\&.")
}
