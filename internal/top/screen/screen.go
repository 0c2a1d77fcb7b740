// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package screen shows a top.Board on a terminal: it reads keys, redraws at most a few times per second, and queries
// `why` for the opened row.
//
// Package top decides what is shown. This is the only package that imports bubbletea. Start reading at Run.
package screen

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/dovetail-sh/dovetail/internal/top"
)

const (
	drawEvery = 250 * time.Millisecond // while something changes
	ageEvery  = time.Second            // while nothing does: ages grow
	whyLimit  = 10 * time.Second       // how long somebody has to answer why
	whyAgain  = 5 * time.Second        // and is asked again while the answer is looked at
)

// Shared is a Board that several goroutines change.
type Shared struct {
	mu      sync.Mutex
	board   *top.Board
	changed bool
}

// Share makes a Board safe for concurrent use.
func Share(b *top.Board) *Shared { return &Shared{board: b} }

// Apply makes a change.
func (s *Shared) Apply(change top.Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s.board)
	s.changed = true
}

// View returns what there is now.
func (s *Shared) View() *top.View {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed = false
	return s.board.View(time.Now())
}

// Usages returns the pods by node and workload, as top.Board.Usages has them.
func (s *Shared) Usages() []top.Usage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.board.Usages()
}

func (s *Shared) hasChanged() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// Detail returns the detail lines of an object of a view. See top.Board.Detail.
func (s *Shared) Detail(v *top.View, subject string, width int) []top.DetailLine {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.board.Detail(v, subject, width)
}

// Why answers why about an object; ok false: there is nobody to ask about such a thing.
type Why func(ctx context.Context, subject string) (answer string, ok bool)

// Run shows the Board until the person quits or the context ends, which is the error then.
func Run(ctx context.Context, s *Shared, l *top.Look, why Why, in io.Reader, out io.Writer) error {
	m := &model{ctx: ctx, shared: s, look: l, why: why, answers: map[string]answer{}}
	_, err := tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(out), tea.WithoutSignalHandler(), tea.WithFPS(30)).Run()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, tea.ErrInterrupted) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("draw on the terminal: %w", err)
	}
	return nil
}

type model struct {
	ctx     context.Context
	shared  *Shared
	look    *top.Look
	why     Why
	view    *top.View
	drawn   time.Time // when view was made
	details []top.DetailLine
	answers map[string]answer // of why, by subject
	content string
}

type answer struct {
	text   string
	at     time.Time
	asking bool
}

type (
	tick   struct{}
	whyMsg struct {
		subject, text string
		ok            bool
	}
)

func next() tea.Cmd { return tea.Tick(drawEvery, func(time.Time) tea.Msg { return tick{} }) }

// Init implements tea.Model.
func (m *model) Init() tea.Cmd {
	m.refresh()
	return next()
}

// Update implements tea.Model.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tick:
		if m.shared.hasChanged() || time.Since(m.drawn) >= ageEvery {
			m.refresh()
			m.draw()
		}
		return m, tea.Batch(next(), m.ask())
	case tea.WindowSizeMsg:
		m.look.Width, m.look.Height = msg.Width, msg.Height
		m.draw()
	case tea.KeyPressMsg:
		key := msg.String()
		if key == " " {
			key = "space"
		}
		if m.look.Press(key, m.view, m.details) {
			return m, tea.Quit
		}
		m.draw()
		return m, m.ask()
	case tea.PasteMsg:
		for _, r := range msg.Content {
			m.look.Press(string(r), m.view, m.details)
		}
		m.draw()
	case whyMsg:
		if !msg.ok {
			msg.text = ""
		}
		m.answers[msg.subject] = answer{text: msg.text, at: time.Now()}
		m.draw()
	}
	return m, nil
}

func (m *model) refresh() {
	m.view = m.shared.View()
	m.drawn = time.Now()
}

// ask asks why of what is open, again while it is being looked at.
func (m *model) ask() tea.Cmd {
	subject := m.look.Subject()
	if subject == "" || m.why == nil {
		return nil
	}
	have := m.answers[subject]
	if have.asking || time.Since(have.at) < whyAgain {
		return nil
	}
	have.asking = true
	m.answers[subject] = have
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(m.ctx, whyLimit)
		defer cancel()
		text, ok := m.why(ctx, subject)
		return whyMsg{subject, text, ok}
	}
}

// View implements tea.Model.
func (m *model) View() tea.View {
	v := tea.NewView(m.content)
	v.AltScreen = true
	v.WindowTitle = "dovetail top"
	return v
}

// codes are the escape sequences of tones; bubbletea leaves colours out where the terminal or NO_COLOR has none.
var codes = [...]string{top.Plain: "", top.Head: "1", top.Dim: "90", top.Good: "32", top.Warn: "33", top.Bad: "1;31", top.Chosen: "7"}

func (m *model) draw() {
	if m.look.Width <= 0 || m.look.Height <= 0 || m.view == nil {
		return
	}
	m.details = nil
	if subject := m.look.Subject(); subject != "" {
		m.details = m.shared.Detail(m.view, subject, m.look.Width)
		if a := m.answers[subject]; a.text != "" {
			m.details = append(m.details, top.WhyLines("Why, by Dovetail", a.text, m.look.Width)...)
		}
	}
	var b strings.Builder
	for i, line := range top.Frame(m.view, m.look, m.details) {
		if i > 0 {
			b.WriteByte('\n')
		}
		for _, s := range line {
			if code := codes[s.Tone]; code != "" {
				b.WriteString("\x1b[" + code + "m" + s.Text + "\x1b[m")
			} else {
				b.WriteString(s.Text)
			}
		}
	}
	m.content = b.String()
}
