package policy

import (
	"regexp"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/decls"
	"cel.dev/cel-go/common/env"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"go.yaml.in/yaml/v3"

	"github.com/reaperd/reaperd/internal/strictyaml"
)

// when is a clause written as an expression in CEL. It is compiled by the
// loader, which has the text of the file to tell places by.
type when struct {
	text    string
	at      *yaml.Node
	program cel.Program
}

// DecodeYAML implements strictyaml.Unmarshaler.
func (w *when) DecodeYAML(d *strictyaml.Decoder, n *yaml.Node) {
	w.at = n
	w.text = text(d, n)
}

// ask evaluates the expression. One that fails, reads what the provider did not
// say, or costs too much cannot say.
func (w *when) ask(f *Facts, looked *lookups) answer {
	if w.program == nil {
		return cannotSay
	}
	if looked.when == nil {
		looked.when = &whenFacts{facts: f}
	}
	out, _, err := w.program.Eval(looked.when)
	if err != nil {
		return cannotSay
	}
	b, ok := out.(types.Bool)
	if !ok {
		return cannotSay
	}
	return answerOf(bool(b))
}

// The limits of an expression: on what is written, and, in cost units of CEL,
// on what is done. Only loops can do more than is written.
const (
	maxExpression = 4096
	maxCost       = 20_000
)

// tagFunction is what tag(name) is expanded to, with sandbox before the name.
const tagFunction = "@tag"

func readTag(sandbox, key ref.Val) ref.Val {
	w, isSandbox := sandbox.(*whenFacts)
	name, isText := key.(types.String)
	if !isSandbox || !isText {
		return types.MaybeNoSuchOverloadErr(key)
	}
	return w.tag(string(name))
}

// whenFunctions are all that an expression can do beside reading. There is no
// clock and no time among them: time belongs in limits.
var whenFunctions = []string{
	operators.LogicalAnd, operators.LogicalOr, operators.LogicalNot, operators.Conditional, operators.NotStrictlyFalse,
	operators.Equals, operators.NotEquals, operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals,
	operators.In, operators.Index, operators.Add, operators.Subtract, operators.Negate,
	"contains", "startsWith", "endsWith", "matches", "size", "int", "double", "string",
}

// newWhenEnv makes the environment in which expressions are compiled.
func newWhenEnv() (*cel.Env, error) {
	registry, err := types.NewRegistry()
	if err != nil {
		return nil, err
	}
	subset := env.NewLibrarySubset().AddIncludedMacros(operators.Has, operators.All, operators.Exists, operators.ExistsOne)
	for _, name := range whenFunctions {
		subset.AddIncludedFunctions(env.NewFunction(name))
	}
	return cel.NewCustomEnv(
		cel.StdLib(cel.StdLibSubset(subset)),
		cel.CustomTypeProvider(whenTypes{registry}),
		cel.CustomTypeAdapter(registry),
		cel.Variable("sandbox", whenType),
		cel.Function(tagFunction, decls.DisableTypeGuards(true), // readTag looks itself
			cel.Overload("sandbox_tag", []*cel.Type{whenType, cel.StringType}, cel.StringType, cel.BinaryBinding(readTag))),
		cel.Macros(cel.GlobalMacro("tag", 1, func(m cel.MacroExprFactory, _ ast.Expr, args []ast.Expr) (ast.Expr, *cel.Error) {
			return m.NewCall(tagFunction, m.NewIdent("sandbox"), args[0]), nil
		})),
		cel.ParserExpressionSizeLimit(maxExpression),
		cel.ASTValidators(cel.ValidateRegexLiterals()),
	)
}

// compile makes the expression ready. What is wrong with it is told through
// report with the place in the expression, from 1; zero: as a whole.
func (w *when) compile(e *cel.Env, report func(line, column int, format string, args ...any)) {
	compiled, issues := e.Compile(w.text)
	if issues.Err() != nil {
		for _, err := range issues.Errors() {
			report(err.Location.Line(), err.Location.Column()+1, "%s", explainIssue(err.Message))
		}
		return
	}
	if t := compiled.OutputType(); !t.IsExactType(cel.BoolType) {
		report(0, 0, "must say true or false, and gives a %s", t)
		return
	}
	asks, loops, makes := false, false, false
	ast.PreOrderVisit(compiled.NativeRep().Expr(), ast.NewExprVisitor(func(x ast.Expr) {
		switch x.Kind() {
		case ast.IdentKind:
			asks = asks || x.AsIdent() == "sandbox"
		case ast.ComprehensionKind:
			loops = true
		case ast.StructKind:
			makes = true
		}
	}))
	switch {
	case makes:
		report(0, 0, "a sandbox cannot be made up: ask for the fields of sandbox")
		return
	case !asks:
		report(0, 0, "asks nothing of the sandbox: use sandbox.name, tag(\"env\") and the like")
		return
	}
	options := []cel.ProgramOption{cel.EvalOptions(cel.OptOptimize)}
	if loops {
		options = append(options, cel.CostLimit(maxCost))
	}
	program, err := e.Program(compiled, options...)
	if err != nil {
		report(0, 0, "%v", err)
		return
	}
	w.program = program
}

var (
	unknownName  = regexp.MustCompile(`^undeclared reference to '(\w+)'`)
	unknownField = regexp.MustCompile(`^undefined field '(\w+)'`)
	unknownType  = regexp.MustCompile(`^unexpected failed resolution of '(.+)'`)
)

// explainIssue says in plainer words what CEL does not take.
func explainIssue(message string) string {
	message = strings.TrimSuffix(message, " (in container '')")
	if message == "invalid matches argument" {
		return "the pattern that matches takes is not a regular expression"
	}
	if m := unknownType.FindStringSubmatch(message); m != nil {
		return m[1] + " is not known here"
	}
	if m := unknownField.FindStringSubmatch(message); m != nil {
		return "sandbox has no " + m[1] + strictyaml.DidYouMean(m[1], whenFieldNames())
	}
	if m := unknownName.FindStringSubmatch(message); m != nil {
		switch {
		case m[1] == "tag":
			return `tag takes the key of one tag: tag("env")`
		case slices.Contains([]string{"now", "timestamp", "duration", "time", "date"}, m[1]):
			return m[1] + " is not known here: time belongs in limits"
		case !slices.Contains(whenFunctions, m[1]):
			return "unknown name " + m[1] + strictyaml.DidYouMean(m[1], append([]string{"sandbox", "tag"}, whenWords()...))
		}
	}
	return message
}

// whenWords are the functions that people call by name.
func whenWords() []string {
	words := []string{operators.Has, operators.All, operators.Exists}
	for _, name := range whenFunctions {
		if strings.Trim(name, "_!@?:<>=&|+-[]") == name {
			words = append(words, name)
		}
	}
	return words
}
