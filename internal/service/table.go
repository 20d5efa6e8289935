package service

import (
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"
)

// Setting describes one environment variable that a program reads.
type Setting struct {
	Name     string
	Default  string // empty: none
	Type     string // the form of its value
	Forms    string // all forms, where they are few
	Meaning  string
	Required bool
}

// leaf is one field with an env tag, found anywhere in a settings struct.
type leaf struct {
	Setting
	field reflect.StructField
	index []int
}

// Table lists every setting of T in the order of its fields, those of nested
// structs in their place.
//
// T is a struct whose fields have the tags `env:"NAME"`, `envDefault:"…"` where
// there is a default, and `doc:"meaning"`; a struct without env tag is nested.
func Table[T any]() []Setting {
	var settings []Setting
	for _, l := range leaves(reflect.TypeFor[T](), nil) {
		settings = append(settings, l.Setting)
	}
	return settings
}

// helpWidth is the longest line of the help, for a terminal of 80 columns.
const helpWidth = 78

// writeTable prints settings: a line with name, default and type, and the meaning
// below it.
func writeTable(w io.Writer, settings []Setting) {
	for _, s := range settings {
		def := "no default"
		switch {
		case s.Required:
			def = "required"
		case s.Default != "":
			def = "default " + s.Default
		}
		indented(w, "  ", fmt.Sprintf("%s (%s, %s)", s.Name, s.Type, def))
		indented(w, "      ", s.Meaning)
	}
}

// indented prints a text in lines of at most helpWidth. A word is never divided.
func indented(w io.Writer, indent, text string) {
	line := indent
	for word := range strings.FieldsSeq(text) {
		if line != indent && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > helpWidth {
			fmt.Fprintln(w, line)
			line = indent
		}
		if line != indent {
			line += " "
		}
		line += word
	}
	fmt.Fprintln(w, line)
}

// leaves walks t. index is the path to t in the outermost struct.
func leaves(t reflect.Type, index []int) []leaf {
	var all []leaf
	for f := range t.Fields() {
		path := append(append([]int(nil), index...), f.Index...)
		tag, tagged := f.Tag.Lookup("env")
		if !tagged {
			if f.Type.Kind() == reflect.Struct {
				all = append(all, leaves(f.Type, path)...)
			}
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		all = append(all, leaf{
			Setting: Setting{
				Name:     name,
				Default:  f.Tag.Get("envDefault"),
				Type:     typeWord(f.Type),
				Forms:    forms(f.Type),
				Meaning:  f.Tag.Get("doc"),
				Required: strings.Contains(","+options+",", ",required,"),
			},
			field: f,
			index: path,
		})
	}
	return all
}

// described is a type of setting with a text about the form of its values.
type described interface{ Describe() string }

// forms lists the forms of a value of t, where they are few; otherwise it is
// empty.
func forms(t reflect.Type) string {
	if d, ok := reflect.TypeAssert[described](reflect.Zero(t)); ok {
		return d.Describe()
	}
	if t == levelType {
		return "debug, info, warn or error"
	}
	return ""
}

// typeWord returns the form of a value of t, for the help and for errors.
func typeWord(t reflect.Type) string {
	if forms := forms(t); forms != "" {
		return forms
	}
	switch t {
	case reflect.TypeFor[time.Duration]():
		return "duration such as 20s"
	case reflect.TypeFor[Secret]():
		return "secret"
	}
	switch t.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "whole number"
	case reflect.Float32, reflect.Float64:
		return "number"
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "text"
	case reflect.Slice:
		return "comma-separated list"
	default:
		return t.String()
	}
}
