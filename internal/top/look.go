// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package top

import (
	"fmt"
	"slices"
	"strings"
)

// Section is one of the tables.
type Section int

// The tables, from top to bottom.
const (
	Pools Section = iota
	Nodes
	Pending
	Decisions
	sections
)

// Look is what somebody looks at: the size of the terminal, which table has the keys, how each is sorted, where the cursor is.
type Look struct {
	Width, Height int
	Focus         Section
	Filter        string   // rows that have it somewhere are shown, whatever the case
	editing       bool     // keys go to Filter
	before        string   // Filter as it was
	open          []opened // details opened one above the other
	help          bool
	sort          [sections]order
	at            [sections]place
}

type order struct {
	column     string // title; empty: the order of the View
	descending bool
}

// place is where the cursor and the first row shown are.
type place struct{ cursor, first int }

type opened struct {
	subject string
	place
}

// Subject is what details are open of, such as node/a, pod/default/b, nodepool/c, or cause/TEXT; empty: of nothing.
func (l *Look) Subject() string {
	if len(l.open) == 0 {
		return ""
	}
	return l.open[len(l.open)-1].subject
}

// NewLook returns one of the nodes.
func NewLook() *Look { return &Look{Focus: Nodes} }

// SortNodes sorts the nodes by the column of that title, the largest first where it is preceded by a minus.
func (l *Look) SortNodes(by string) error {
	title := strings.ToUpper(strings.ReplaceAll(strings.TrimPrefix(by, "-"), "-", " "))
	titles := sortable(nodeColumns(true))
	if by == "" {
		return nil
	}
	if title == "" || !slices.Contains(titles, title) {
		var names []string
		for _, t := range titles {
			names = append(names, strings.ToLower(strings.ReplaceAll(t, " ", "-")))
		}
		return fmt.Errorf("no column %q; use one of %s, with - before it for the largest first", by, strings.Join(names, ", "))
	}
	l.sort[Nodes] = order{title, strings.HasPrefix(by, "-")}
	return nil
}

func sortable[R any](columns []column[R]) (titles []string) {
	for _, c := range columns {
		if c.sortBy != nil {
			titles = append(titles, c.title)
		}
	}
	return titles
}

// tables are the rows of a View that a Look shows, sorted and filtered.
type tables struct {
	pools     []PoolRow
	nodes     []NodeRow
	pending   []CauseRow
	decisions []Decision
}

func (t *tables) len(s Section) int {
	return [sections]int{len(t.pools), len(t.nodes), len(t.pending), len(t.decisions)}[s]
}

// rows returns what the Look shows.
func (v *View) rows(l *Look) *tables {
	return &tables{
		pools: arrange(v.Pools, poolColumns(), l.sort[Pools], l.Filter, nil),
		nodes: arrange(v.Nodes, nodeColumns(v.UseKnown), l.sort[Nodes], l.Filter, func(r *NodeRow) []string {
			return []string{r.Name, r.Claim, r.Pool, r.Type, r.Zone, r.CapacityType, r.State, r.Doing}
		}),
		pending: arrange(v.Pending, causeColumns(), l.sort[Pending], l.Filter, func(r *CauseRow) []string {
			out := []string{r.Cause, r.Said}
			for _, p := range r.Pods {
				out = append(out, p.Namespace+"/"+p.Name)
			}
			return out
		}),
		decisions: arrange(v.Decisions, decisionColumns(v.At), l.sort[Decisions], l.Filter, nil),
	}
}

// arrange returns the rows that have the filter in some of their texts, in order. words are the texts that are looked into; nil: all columns.
func arrange[R any](rows []R, columns []column[R], by order, filter string, words func(*R) []string) []R {
	if filter == "" && by.column == "" {
		return rows
	}
	filter = strings.ToLower(filter)
	out := make([]R, 0, len(rows))
	for i := range rows {
		if filter == "" || matches(&rows[i], columns, filter, words) {
			out = append(out, rows[i])
		}
	}
	for _, c := range columns {
		if c.title == by.column && c.sortBy != nil {
			slices.SortStableFunc(out, func(a, b R) int {
				if by.descending {
					return c.sortBy(&b, &a)
				}
				return c.sortBy(&a, &b)
			})
		}
	}
	return out
}

func matches[R any](r *R, columns []column[R], filter string, words func(*R) []string) bool {
	if words != nil {
		return slices.ContainsFunc(words(r), func(s string) bool { return strings.Contains(strings.ToLower(s), filter) })
	}
	return slices.ContainsFunc(columns, func(c column[R]) bool { return strings.Contains(strings.ToLower(c.text(r)), filter) })
}

// subjectAt names the object of a row.
func (t *tables) subjectAt(s Section, i int) string {
	if i < 0 || i >= t.len(s) {
		return ""
	}
	switch s {
	case Pools:
		if t.pools[i].Key == "" {
			return ""
		}
		return t.pools[i].Key
	case Nodes:
		if t.nodes[i].IsClaim {
			return "nodeclaim/" + t.nodes[i].Name
		}
		return "node/" + t.nodes[i].Name
	case Pending:
		if len(t.pending[i].Pods) == 1 {
			return "pod/" + t.pending[i].Pods[0].Namespace + "/" + t.pending[i].Pods[0].Name
		}
		return "cause/" + t.pending[i].Why()
	}
	return t.decisions[i].Subject
}

// Press does what a key is for, by bubbletea's name of it. details are the lines that are shown where something is open. quit says that
// the person has seen enough.
func (l *Look) Press(key string, v *View, details []DetailLine) (quit bool) {
	if key == "ctrl+c" {
		return true
	}
	if l.editing {
		l.edit(key)
		return false
	}
	if l.help {
		l.help = false
		return key == "q"
	}
	switch key {
	case "q":
		return true
	case "?", "h":
		l.help = true
		return false
	}
	if len(l.open) > 0 {
		l.pressDetail(key, details)
		return false
	}
	t := v.rows(l)
	at := &l.at[l.Focus]
	page := max(1, l.Height/2)
	switch key {
	case "tab", "right", "l":
		l.Focus = (l.Focus + 1) % sections
	case "shift+tab", "left":
		l.Focus = (l.Focus + sections - 1) % sections
	case "1", "2", "3", "4":
		l.Focus = Section(key[0] - '1')
	case "/":
		l.editing, l.before = true, l.Filter
	case "esc":
		l.Filter = ""
	case "s":
		l.sort[l.Focus].column = nextColumn(l.Focus, v, l.sort[l.Focus].column)
	case "r":
		l.sort[l.Focus].descending = !l.sort[l.Focus].descending
		if l.sort[l.Focus].column == "" {
			l.sort[l.Focus].column = nextColumn(l.Focus, v, "")
		}
	case "enter":
		if s := t.subjectAt(l.Focus, at.cursor); s != "" {
			l.open = append(l.open, opened{subject: s})
		}
	default:
		move(&at.cursor, key, page, t.len(l.Focus))
	}
	return false
}

func (l *Look) edit(key string) {
	switch key {
	case "enter":
		l.editing = false
	case "esc":
		l.editing, l.Filter = false, l.before
	case "backspace":
		if r := []rune(l.Filter); len(r) > 0 {
			l.Filter = string(r[:len(r)-1])
		}
	case "space":
		l.Filter += " "
	default:
		if len([]rune(key)) == 1 {
			l.Filter += clean(key)
		}
	}
	l.at = [sections]place{}
}

func (l *Look) pressDetail(key string, details []DetailLine) {
	top := &l.open[len(l.open)-1]
	switch key {
	case "esc", "backspace", "left":
		l.open = l.open[:len(l.open)-1]
	case "enter":
		if i := top.cursor; i < len(details) && details[i].Subject != "" {
			l.open = append(l.open, opened{subject: details[i].Subject})
		}
	default:
		move(&top.cursor, key, max(1, l.Height/2), len(details))
	}
}

// move takes the cursor where a key leads, within so many rows.
func move(cursor *int, key string, page, rows int) {
	switch key {
	case "up", "k":
		*cursor--
	case "down", "j":
		*cursor++
	case "pgup", "ctrl+b":
		*cursor -= page
	case "pgdown", "ctrl+f", "space":
		*cursor += page
	case "home", "g":
		*cursor = 0
	case "end", "G":
		*cursor = rows - 1
	}
	*cursor = max(0, min(*cursor, rows-1))
}

// nextColumn is the column to sort by after this one; after the last one comes the order of the View.
func nextColumn(s Section, v *View, column string) string {
	titles := [sections]func() []string{
		func() []string { return sortable(poolColumns()) },
		func() []string { return sortable(nodeColumns(v.UseKnown)) },
		func() []string { return sortable(causeColumns()) },
		func() []string { return sortable(decisionColumns(v.At)) },
	}[s]()
	if i := slices.Index(titles, column) + 1; i < len(titles) {
		return titles[i]
	}
	return ""
}
