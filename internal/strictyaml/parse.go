// Package strictyaml reads YAML that people write by hand and that must not be
// misread: every unknown, doubled, empty or mistyped key is a fault with its
// place in the file, texts are taken as written whatever YAML would guess of
// them, and all faults are reported at once.
package strictyaml

import (
	"bytes"
	"errors"
	"io"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// Parse reads one YAML document into its node tree. The root is a mapping.
// Anchors, aliases, merge keys and explicit tags are refused: what they expand
// to cannot be seen in the place where it counts. file is used in faults only.
func Parse(file string, data []byte) (*yaml.Node, Faults) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	if err := dec.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, Faults{{File: file, Message: "the file is empty"}}
		}
		return nil, Faults{syntaxFault(file, data, err)}
	}
	root := doc.Content[0]
	if root.Kind == yaml.ScalarNode && root.ShortTag() == "!!null" {
		return nil, Faults{{File: file, Message: "the file is empty"}}
	}
	var next yaml.Node
	switch err := dec.Decode(&next); {
	case err == nil:
		at := next.Content[0]
		return nil, Faults{{File: file, Line: at.Line, Column: at.Column, Message: "a second document begins here: write one document to a file"}}
	case !errors.Is(err, io.EOF):
		return nil, Faults{syntaxFault(file, data, err)}
	}
	if root.Kind != yaml.MappingNode {
		return nil, Faults{{File: file, Line: root.Line, Column: root.Column, Message: "want keys and values, found " + describe(root)}}
	}
	var faults Faults
	refuseIndirection(file, root, &faults)
	if len(faults) > 0 {
		return nil, faults
	}
	return root, nil
}

func refuseIndirection(file string, n *yaml.Node, faults *Faults) {
	refuse := func(why string) {
		*faults = append(*faults, Fault{File: file, Line: n.Line, Column: n.Column, Message: why})
	}
	switch {
	case n.Kind == yaml.AliasNode:
		refuse("aliases (*" + n.Value + ") are not taken: write the value out")
	case n.Anchor != "":
		refuse("anchors (&" + n.Anchor + ") are not taken: write the value out where it is needed")
	case n.Kind == yaml.ScalarNode && n.ShortTag() == "!!merge":
		refuse("merge keys (<<) are not taken: write the keys out")
	case n.Style&yaml.TaggedStyle != 0:
		refuse("explicit tags (" + n.Tag + ") are not taken: write the plain value")
	}
	for _, c := range n.Content {
		refuseIndirection(file, c, faults)
	}
}

// describe names what a node is, for "want X, found Y".
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "keys and values"
	case yaml.SequenceNode:
		return "a list"
	default:
		if n.ShortTag() == "!!null" {
			return "nothing"
		}
		return strconv.Quote(n.Value)
	}
}
