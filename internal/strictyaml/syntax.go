package strictyaml

import (
	"regexp"
	"strconv"
	"strings"
)

var syntaxError = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)$`)

// syntaxFault tells what makes a file no YAML. The parser often names the
// place where it gave up rather than the one to mend, and what it wanted rather
// than what is there: where the text shows the cause, that is told instead.
func syntaxFault(file string, data []byte, err error) Fault {
	f := Fault{File: file, Message: err.Error()}
	m := syntaxError.FindStringSubmatch(err.Error())
	if m == nil {
		return f
	}
	f.Message, f.Line, f.Column = "not YAML: "+m[2], 1, 1 // it names no line if that is the first
	if line, err := strconv.Atoi(m[1]); err == nil {
		f.Line = line
	}
	lines := strings.Split(string(data), "\n")
	// The scanner names the line before the one it stumbles over, or that one.
	for n := f.Line; n <= f.Line+1 && n <= len(lines); n++ {
		if i := strings.IndexByte(lines[n-1], '\t'); i >= 0 && strings.TrimSpace(lines[n-1][:i]) == "" {
			f.Line, f.Column = n, i+1
			f.Message = "a tab cannot indent YAML: use spaces"
			return f
		}
	}
	if c := causeOf(m[2], lines); c.line > 0 {
		f.Line, f.Column, f.Message = c.line, c.column, "not YAML: "+c.message
	}
	return f
}

// cause is something in a text that makes it no YAML; the zero value is none.
type cause struct {
	line, column int
	message      string
}

// causeOf looks for what the parser complains of.
func causeOf(complaint string, lines []string) cause {
	var s scanner
	for i, line := range lines {
		s.scan(i+1, strings.TrimSuffix(line, "\r"))
	}
	switch {
	case strings.Contains(complaint, "alphabetic or numeric character"):
		return s.alias
	case strings.Contains(complaint, "cannot start any token"):
		return s.odd
	case strings.Contains(complaint, "end of stream"):
		return s.quoted
	case strings.Contains(complaint, "expected ',' or"):
		if s.mismatch.line > 0 || len(s.open) == 0 {
			return s.mismatch
		}
		return s.open[len(s.open)-1]
	}
	return cause{}
}

// scanner reads just as much of YAML as it takes to tell brackets, quotes and
// the beginnings of values from text.
type scanner struct {
	open     []cause // brackets that are not closed yet
	quoted   cause   // the quotation mark that is not closed yet
	quote    rune    // which one that is; 0: none
	start    bool    // a value may begin here
	block    int     // the indentation that a block of text is deeper than, plus one; 0: no block
	alias    cause   // the first * or & that names nothing
	odd      cause   // the first character that begins no value
	mismatch cause   // the first bracket that closes another one
}

func (s *scanner) scan(number int, line string) {
	indent := len(line) - len(strings.TrimLeft(line, " "))
	if s.block > 0 && (indent >= s.block || indent == len(line)) {
		return
	}
	s.block = 0
	if len(s.open) == 0 && s.quote == 0 {
		s.start = true
	}
	text := []rune(line + " ")
	for i := 0; i+1 < len(text); i++ {
		c, next := text[i], text[i+1]
		here := func(message string) cause { return cause{number, i + 1, message} }
		switch {
		case s.quote != 0:
			switch {
			case c == '\\' && s.quote == '"', c == '\'' && s.quote == '\'' && next == '\'':
				i++
			case c == s.quote:
				s.quote, s.quoted, s.start = 0, cause{}, false
			}
		case c == '#' && (i == 0 || text[i-1] == ' '):
			return
		case c == ' ':
		case strings.ContainsRune("]}", c) && len(s.open) > 0:
			s.close(c, here)
		case c == ',' && len(s.open) > 0, c == ':' && (next == ' ' || strings.ContainsRune(",[]{}", next) && len(s.open) > 0):
			s.start = true
		case !s.start, c == '-' && next == ' ':
		case strings.ContainsRune("[{", c):
			s.open = append(s.open, here("this "+string(c)+" is never closed"))
		case strings.ContainsRune(`'"`, c):
			s.quote, s.quoted = c, here("this "+string(c)+" is never closed")
		case strings.ContainsRune("|>", c) && len(s.open) == 0:
			s.block = indent + 1
			return
		default:
			s.begin(c, next, here)
		}
	}
}

// close takes a closing bracket.
func (s *scanner) close(c rune, here func(string) cause) {
	last := s.open[len(s.open)-1]
	if opened := last.message[len("this ")]; (opened == '{') != (c == '}') && s.mismatch.line == 0 {
		s.mismatch = here("this " + string(c) + " closes the " + string(opened) + " at " + strconv.Itoa(last.line) + ":" + strconv.Itoa(last.column))
	}
	s.open, s.start = s.open[:len(s.open)-1], false
}

// begin takes the first character of a value.
func (s *scanner) begin(c, next rune, here func(string) cause) {
	s.start = false
	switch {
	case strings.ContainsRune("*&", c) && strings.ContainsRune(" ,]}.*?", next) && s.alias.line == 0:
		s.alias = here("a value cannot begin with a bare " + string(c) + `: write it in quotes, such as "` + string(c) + `"`)
	case strings.ContainsRune("@`%", c) && s.odd.line == 0:
		s.odd = here("a value cannot begin with " + string(c) + ": write it in quotes")
	}
}
