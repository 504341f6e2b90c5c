package policy

import (
	"path"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/reaperd/reaperd/internal/strictyaml"
)

// imageName is an image by its familiar name, as people write it: without the
// default registry, with the default tag.
type imageName struct {
	name string // python, acme/tool, ghcr.io/acme/tool; "" cannot say
	tag  string // "" cannot say: only its digest is known
}

// familiar reads an image as a provider writes it. Of one that is a digest or
// an id alone nothing can be said.
func familiar(image string) imageName {
	name, _, pinned := strings.Cut(image, "@")
	if !pinned && isImageID(name) {
		return imageName{}
	}
	for _, registry := range []string{"docker.io/", "index.docker.io/"} {
		name = strings.TrimPrefix(name, registry)
	}
	name = strings.TrimPrefix(name, "library/")
	name, tag := splitTag(name)
	switch {
	case name == "":
		return imageName{}
	case tag == "" && !pinned:
		tag = "latest"
	}
	return imageName{name, tag}
}

// splitTag cuts off what follows the last colon, unless that is the port of a
// registry.
func splitTag(s string) (name, tag string) {
	if i := strings.LastIndexByte(s, ':'); i > strings.LastIndexByte(s, '/') {
		return s[:i], s[i+1:]
	}
	return s, ""
}

// isImageID says whether s is the id of an image, which hides its name: in
// full, or the twelve digits that are shown of it.
func isImageID(s string) bool {
	digits, marked := strings.CutPrefix(s, "sha256:")
	return (marked || len(digits) == 12 || len(digits) == 64) && strings.Trim(digits, "0123456789abcdef") == ""
}

// String gives name:tag.
func (i imageName) String() string {
	if i.tag == "" {
		return i.name
	}
	return i.name + ":" + i.tag
}

// imageGlob selects images by familiar name. A star stands for anything but a
// slash, in the name and in the tag each by itself.
type imageGlob struct{ imageName }

// DecodeYAML implements strictyaml.Unmarshaler.
func (g *imageGlob) DecodeYAML(d *strictyaml.Decoder, n *yaml.Node) {
	t := text(d, n)
	g.imageName = familiar(t)
	_, nameErr := path.Match(g.name, "")
	_, tagErr := path.Match(g.tag, "")
	switch {
	case strings.TrimSpace(t) == "": // reported
	case strings.Contains(t, "@") || g.name == "":
		d.Faultf(n, "%q names a digest, and images are selected by name and tag: write name or name:tag", t)
	case nameErr != nil || tagErr != nil:
		d.Faultf(n, "%q is not a pattern: * stands for anything but a slash, ? for one character, [ab] for one of them", t)
	case strings.Trim(g.name, "*?/") == "":
		d.Faultf(n, "%q names no image: for all of them leave images out and say everything: true", t)
	}
}

// matches says whether the image, of which at least the name is known, is one
// of those meant.
func (g *imageGlob) matches(i imageName) answer {
	if hit, err := path.Match(g.name, i.name); err != nil || !hit {
		return no
	}
	if i.tag == "" && g.tag != "*" {
		return cannotSay
	}
	hit, err := path.Match(g.tag, i.tag)
	return answerOf(err == nil && hit)
}

func (s *selector) askImage(image string) answer {
	name := familiar(image)
	if name.name == "" {
		return cannotSay
	}
	most := no
	for i := range s.Images {
		most = max(most, s.Images[i].matches(name))
	}
	return most
}
