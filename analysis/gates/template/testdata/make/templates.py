"""Renders ../templates/*.jinja and snippets for ../rendered.jsonl and ../snippets.jsonl
with transformers (5.17) and Jinja2 (3.1): make/templates.py in its folder.

Templates and conversations are the project's own. Snippets are one-line templates,
each about one thing that Python's Jinja does, with the variables of VARS.
"""

import json
import sys
from pathlib import Path

from transformers.utils.chat_template_utils import render_jinja_template

here = Path(__file__).parent.parent
sys.path.insert(0, str(here.parent.parent.parent.parent / ".ci" / "gates"))
sys.argv = ["templates.py"]
import templates as cases  # noqa: E402  the conversations

VARS = {"n": 7, "f": 2.5, "s": "Hé llo, wörld", "e": "", "t": True, "none": None, "l": [3, 1, 2], "w": ["b", "A", "c"],
        "d": {"b": 1, "a": {"x": [1, "two", None, 1.5, True]}, "ü": "\"q'<&>\n"}, "big": 123456789012345678901234567890,
        "ms": [{"r": "u", "k": 2}, {"r": "a", "k": 1}, {"r": "u"}], "lines": " a\n\n  b \r\nc", "kor": "서울 😀"}

SNIPPETS = r"""
{{ n }} {{ f }} {{ t }} {{ none }} {{ l }} {{ d }} {{ s }} {{ big }} {{ missing }}
{{ n + 1 }} {{ n - 10 }} {{ n * f }} {{ n / 2 }} {{ n // 2 }} {{ -n // 2 }} {{ n % 4 }} {{ -n % 4 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ -2 ** 2 }}
{{ 7.5 // 2 }} {{ -7.5 % 2 }} {{ 1e16 }} {{ 1e15 }} {{ 0.0001 }} {{ 0.00001 }} {{ 1e-7 }} {{ 3.0 }} {{ 1/3 }} {{ 100000000000000000000.0 }}
{{ 'a' ~ n ~ none ~ f }} {{ 'a' + 'b' }} {{ 'ab' * 3 }} {{ [1] + [2] }} {{ (1, 2) + (3,) }} {{ (1,) }} {{ () }} {{ [] }} {{ {} }}
{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 == 1.0 }} {{ true == 1 }} {{ 'a' < 'b' }} {{ [1,2] < [1,3] }} {{ 1 != 2 }} {{ none == none }}
{{ 'l' in s }} {{ 'z' not in s }} {{ 3 in l }} {{ 'b' in d }} {{ 'x' in missing }} {{ missing in l }} {{ none in [none] }}
{{ not t }} {{ not not n }} {{ e or 'x' }} {{ n and 'y' }} {{ e and 'y' }} {{ none or 0 or [] or 'last' }}
{{ 'yes' if n > 3 else 'no' }} {{ 'yes' if n > 30 }}| {{ 'a' if e else 'b' if n else 'c' }}
{{ s[0] }} {{ s[-1] }} {{ s[1:4] }} {{ s[::-1] }} {{ s[:-3] }} {{ s[::3] }} {{ s[100:] }}| {{ s[-4:-1] }} {{ kor[::-1] }} {{ kor[3] }}
{{ l[-9::-1] }} {{ l[1::-1] }} {{ l[-9:2] }} {{ s[2::-1] }} {{ l[9::-2] }} {{ l[:-9:-1] }} {{ l[:0:-1] }} {{ l[-2::2] }}
{{ l[0] }} {{ l[-1] }} {{ l[1:] }} {{ l[::-1] }} {{ l[5] }}| {{ l[-2:] }} {{ l[:-1] }} {{ l[2:0:-1] }} {{ l[10:20] }} {{ l[none:2] }}
{{ d.b }} {{ d['b'] }} {{ d.a.x[1] }} {{ d['a']['x'][-1] }} {{ d.missing }}| {{ d.get('b') }} {{ d.get('z') }} {{ d.get('z', 5) }} {{ d['ü'] }}
{{ d.items() | list }} {{ d.keys() | list }} {{ d.values() | list | length }} {% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}
{{ d | items | list }} {{ missing | items | list }} {{ d | dictsort }} {{ {'b': 2, 'A': 1} | dictsort }} {{ {'b': 1, 'a': 2} | dictsort(by='value', reverse=true) }} {{ {'b': 2, 'A': 1} | dictsort(true) }}
{{ d | tojson }} {{ d | tojson(indent=2) }} {{ l | tojson }} {{ s | tojson }} {{ kor | tojson(ensure_ascii=true) }} {{ none | tojson }} {{ t | tojson }} {{ f | tojson }}
{{ {'b': 1, 'a': [], 'c': {}} | tojson(indent=4, sort_keys=true) }} {{ l | tojson(separators=(',', ':')) }} {{ d | tojson(indent='\t') }} {{ {1: 2, none: 3, true: 4} | tojson }} {{ (1, 2) | tojson }}
{{ '\u007f\x00\x1f\b\f' | tojson }} {{ '\u007fé' | tojson(ensure_ascii=true) }} {{ 1e20 | tojson }} {{ big | tojson }}
{{ s.upper() }} {{ s.lower() }} {{ s.title() }} {{ s.capitalize() }} {{ s | title }} {{ s | capitalize }} {{ "it's a dog-house (x)" | title }} {{ "it's a dog-house (x)".title() }}
[{{ '  x \n'.strip() }}] [{{ '  x \n'.lstrip() }}] [{{ '  x \n'.rstrip() }}] [{{ 'xxaxx'.strip('x') }}] [{{ 'abcba'.lstrip('ab') }}] [{{ ' \u00a0x\u3000' | trim }}] [{{ 'xax' | trim('x') }}]
{{ 'a,b,,c'.split(',') }} {{ 'a,b,c'.split(',', 1) }} {{ ' a  b '.split() }} {{ ' a  b c '.split(none, 1) }} {{ 'a,b,c'.rsplit(',', 1) }} {{ ' a b  c '.rsplit(none, 1) }} {{ lines.splitlines() }} {{ lines.splitlines(true) }} {{ ''.split(',') }} {{ ''.split() }}
{{ s.startswith('H') }} {{ s.startswith(('x', 'H')) }} {{ s.endswith('ld') }} {{ s.startswith('llo', 3) }} {{ s.find('l') }} {{ s.rfind('l') }} {{ s.find('zz') }} {{ s.find('l', 5) }} {{ s.count('l') }} {{ kor.find('😀') }} {{ s.index('w') }}
{{ s.replace('l', 'LL') }} {{ s.replace('l', 'L', 1) }} {{ s | replace('l', '1') }} {{ 'aaa' | replace('a', 'b', 2) }} {{ 'ab'.replace('', '-') }}
{{ ','.join(w) }} {{ w | join }} {{ w | join(', ') }} {{ l | join('-') }} {{ ms | join(',', attribute='r') }} {{ 'abc' | join('.') }}
{{ '{} {} {x}'.format(1, 'b', x=2) }} {{ '{0}{1}{0}'.format('a', 'b') }} {{ '{{}}'.format() }} {{ '%s-%d-%05.2f-%x' % ('a', 5, 2.5, 255) }} {{ '%s' % 'x' }} {{ '%(a)s' % {'a': 1} }} {{ '%5s|%-5s|' % ('a', 'b') }} {{ '%%' % () }} {{ '%s, %s' | format(1, 'x') }}
{{ 'abc'.isalpha() }} {{ '12'.isdigit() }} {{ ''.isdigit() }} {{ ' \n'.isspace() }} {{ 'aB'.islower() }} {{ 'AB1'.isupper() }} {{ 'a1'.isalnum() }} {{ 'foo.bar'.removeprefix('foo.') }} {{ 'foo.bar'.removesuffix('.bar') }} {{ 'a-b-c'.partition('-') }} {{ 'a-b-c'.rpartition('-') }} {{ 'abc'.partition('x') }}
[{{ 'ab'.center(7, '*') }}] [{{ 'ab'.center(5) }}] [{{ 'abc'.center(6) }}] [{{ 'ab'.ljust(4) }}] [{{ 'ab'.rjust(4, '0') }}] [{{ '-5'.zfill(4) }}] [{{ 'ab' | center(6) }}]
{{ n is defined }} {{ missing is defined }} {{ missing is undefined }} {{ n is number }} {{ t is number }} {{ t is integer }} {{ n is integer }} {{ f is float }} {{ t is boolean }} {{ s is string }} {{ d is mapping }} {{ l is iterable }} {{ s is iterable }} {{ n is iterable }} {{ l is sequence }} {{ d is sequence }} {{ n is sequence }} {{ none is none }} {{ n is not none }} {{ t is true }} {{ n is true }} {{ e is false }} {{ range is callable }} {{ missing is iterable }}
{{ 3 is odd }} {{ 4 is even }} {{ 9 is divisibleby 3 }} {{ 9 is divisibleby(2) }} {{ n is eq 7 }} {{ n is equalto 8 }} {{ n is ne 8 }} {{ n is lt 8 }} {{ n is greaterthan 8 }} {{ n is ge(7) }} {{ n is in [1, 7] }} {{ n is sameas 7 }} {{ 'a' is lower }} {{ 'A' is upper }} {{ 'tojson' is filter }} {{ 'nope' is filter }} {{ 'odd' is test }}
{{ l | first }} {{ l | last }} {{ [] | first }}| {{ s | first }} {{ l | length }} {{ s | length }} {{ kor | length }} {{ d | count }} {{ l | sum }} {{ ms[:2] | sum(attribute='k') }} {{ l | max }} {{ l | min }} {{ w | max }} {{ ms[:2] | max(attribute='k') }} {{ missing | length }}
{{ l | sort }} {{ l | sort(reverse=true) }} {{ w | sort }} {{ w | sort(case_sensitive=true) }} {{ ms[:2] | sort(attribute='k') }} {{ l | reverse | list }} {{ s | reverse }} {{ ['a', 'A', 'b'] | unique | list }} {{ l | list }} {{ 'abc' | list }}
{{ ms | map(attribute='r') | list }} {{ ms | map(attribute='k', default=0) | list }} {{ w | map('upper') | join }} {{ l | map('string') | list }} {{ w | map('replace', 'b', 'x') | list }} {{ none | map('upper') | list }}
{{ l | select('odd') | list }} {{ l | reject('odd') | list }} {{ [0, 1, '', 'a'] | select | list }} {{ l | select('gt', 1) | list }} {{ ms | selectattr('r', 'equalto', 'u') | list }} {{ ms | rejectattr('r', 'eq', 'u') | map(attribute='k') | list }} {{ ms | selectattr('k') | list | length }} {{ ms | selectattr('k', 'defined') | list | length }} {{ none | selectattr('k') | list }}
{% for k, g in ms | groupby('r') %}{{ k }}:{{ g | length }};{% endfor %} {% for b in [1,2,3,4,5] | batch(2, 0) %}{{ b }}{% endfor %} {{ [1,2,3] | batch(2) | list }}
{{ '42' | int }} {{ 'x' | int }} {{ 'x' | int(9) }} {{ '3.9' | int }} {{ '0x1f' | int(base=16) }} {{ '2.5' | float }} {{ 'x' | float(1.5) }} {{ 3.7 | int }} {{ n | float }} {{ 2.567 | round(2) }} {{ 2.5 | round }} {{ 3.5 | round }} {{ 2.1 | round(0, 'ceil') }} {{ -3 | abs }} {{ n | string + 'x' }}
{{ missing | default('d') }} {{ e | default('d') }}| {{ e | default('d', true) }} {{ none | d('x', boolean=true) }} {{ missing | default }}| {{ n | default(1) }}
{{ 'a\nb\n\nc' | indent }} {{ 'a\nb' | indent(2, true) }} {{ 'a\n\nb' | indent(2, blank=true) }} {{ 'a\nb' | indent('>') }} {{ 'a\nb\n' | indent(1) }}| {{ 'a b  c' | wordcount }}
{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }} {% endfor %}
{% for x in l %}{{ loop.previtem }},{{ loop.nextitem }},{{ loop.previtem is defined }};{% endfor %} {% for x in l %}{{ loop.cycle('a', 'b') }}{{ loop.changed(x > 1) }}{% endfor %}
{% for x in [] %}x{% else %}empty{% endfor %} {% for x in l if x > 1 %}{{ x }}{{ loop.index }}{% endfor %} {% for x in missing %}x{% else %}none{% endfor %} {% for c in kor %}{{ c }}.{% endfor %}
{% for x in range(5) %}{% if x == 1 %}{% continue %}{% endif %}{% if x == 3 %}{% break %}{% endif %}{{ x }}{% endfor %} {{ range(3) | list }} {{ range(2, 8, 3) | list }} {{ range(3, 0, -1) | list }} {{ range(0) | list }} {{ range(5)[1:3] | list }} {{ range(3) | length }}
{% for a, b in [(1, 2), [3, 4]] %}{{ a }}{{ b }}{% endfor %} {% for (a, b), c in [((1, 2), 3)] %}{{ a }}{{ b }}{{ c }}{% endfor %} {% for x in 1, 2, 3 %}{{ x }}{% endfor %}
{% for x in [[1, [2]], 3] recursive %}{% if x is iterable %}({{ loop(x) }}){% else %}{{ x }}@{{ loop.depth }}{% endif %}{% endfor %}
{% set x = 1 %}{% for y in l %}{% set x = y %}{% endfor %}{{ x }} {% if t %}{% set x = 5 %}{% endif %}{{ x }} {% set a, b = 1, 2 %}{{ a }}{{ b }} {% set tup = 1, 2 %}{{ tup }}
{% set ns = namespace(a=1, b='x') %}{% for y in l %}{% set ns.a = ns.a + y %}{% endfor %}{{ ns.a }}{{ ns.b }} {{ ns.c }}| {% set ns.c = [] %}{{ ns.c }} {{ ns.a is defined }} {{ namespace({'k': 1}).k }}
{% set x %}block {{ n }}{% endset %}{{ x }} {% set x | upper | trim %} abc {% endset %}[{{ x }}] {% filter upper %}abc{{ s }}{% endfilter %} {% with a = 1, b = 2 %}{{ a + b }}{% endwith %} {{ a }}|
{% macro m(a, b=2, c='x') %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }} {{ m(1, c=3) }} {{ m(1, 5) }} {{ m() }} {% set r = m('q') %}{{ r | length }} {{ m.name }}
{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, a=3) }} {% macro k(a) %}[{{ caller(a) }}]{% endmacro %}{% call(x) k(4) %}<{{ x }}>{% endcall %} {% macro o() %}{{ caller is defined }}{% endmacro %}{{ o() }}
{% macro fact(n) %}{% if n > 1 %}{{ n }}*{{ fact(n - 1) }}{% else %}1{% endif %}{% endmacro %}{{ fact(5) }} {% set late = 1 %}{% macro see() %}{{ late }}{% endmacro %}{% set late = 2 %}{{ see() }}
{% macro m(*a) %}{% endmacro %}
{{ m(*[1, 2]) }}
{% macro m(a, b, c=0) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(*[1, 2]) }} {{ m(1, **{'b': 5, 'c': 6}) }} {{ dict(a=1, b=2) }} {{ dict([('x', 1)]) }} {{ dict(d, z=1) | length }}
{%- if n -%} a {%- endif -%} b {{- n -}} c {#- x -#} d {%+ if n %} e {% endif +%} f
{% raw %}{{ not }} {% if %}{% endraw %} {%- raw -%} x {%- endraw -%} y {{ '{{' }} {{ "}}" }} {{ {'a': {'b': 1}}['a']['b'] }} {{ {'a': {'b': 1}} }}
{# comment {{ x }} #}a{#- c -#} b {{ 'x' 'y' "z" }} {{ 'tab\tq\'u\\o\x41\u00e9\n\101' }} {{ "\d\w" }} {{ 1_000 }} {{ 0x1F }} {{ 0b101 }} {{ 0o17 }} {{ 1.5e3 }} {{ 12e2 }}
{{ 'a' 'b' | upper }} {{ ('a' ~ 'b') | upper }} {{ -1 | abs }} {{ 1 + 2 | string | length }} {{ l | length > 2 }} {{ not missing is defined }} {{ n is defined and n > 3 }} {{ 'x' in ['x'] and true }} {{ 1 if n is none else 2 }}
{{ ['it\'s', 'say "x"', 'both \' "', 'nl\n', '\\', 'é', '\u200b', '\x07', '😀'] }} {{ {'k': 'v', 1: none, 2.5: true} }} {{ [[], {}, (), ''] }} {{ 'é' | string }}
{{ d.keys() }}
{{ d.items() }} {{ [1, 2].index(2) }} {{ [1, 1].count(1) }} {{ (1, 2).index(2) }} {{ d.copy() | length }}
{{ 'x' | safe }}{{ 'a<' | safe + '<b' }} {{ '<' + 'b'|safe }} {{ ('a'|safe) ~ '<' }} {{ ('a'|safe) == 'a' }}
{% generation %}a{{ n }}{% endgeneration %} {% for x in l %}{% generation %}{{ x }}{{ loop.index }}{% endgeneration %}{% endfor %}
{{ missing.x }}
{{ missing() }}
{{ missing + 1 }}
{{ none.x }}|{{ none['x'] }}|{{ n.z is defined }}
{{ n.x.y }}
{{ l.append(4) }}
{{ d.update({'x': 1}) }}
{{ s + 1 }}
{{ 1 + 'a' }}
{{ 1 < 'a' }}
{{ raise_exception('no ' ~ n) }}
{{ {}['a']['b'] }}
{{ ''.__class__ }}
{{ ''.__class__.__mro__ }}
{{ [1, 2] | first | x }}
{{ 5 is nope }}
{% if false %}{{ 5 | nope }}{% endif %}fine
{{ 1 / 0 }}
{{ 'a' * -1 }}| {{ l * 2 }} {{ l.x }}| {{ s.nope }}| {{ s[1.5] }}|
{{ range(200000) | length }}
{{ (l | map('string')) | tojson }}
{{ 'abc' is in 'xabcx' }} {{ 'b' in {'b': 1}.keys() }} {{ ('b', 1) in {'b': 1}.items() }} {{ 1 in {'b': 1}.values() }}
{% set a = [1] %}{% set a = a + [2] %}{{ a }}{% if a | length == 2 %}two{% elif a %}some{% else %}none{% endif %}
{%- for m in ms %}{{ m.r }}{% if not loop.last %},{% endif %}{% endfor -%} .
{{ m }}{% macro m() %}x{% endmacro %}
{{ 'a' if n }}{{ 'b' if not n }}{{ ('b' if not n) is defined }} {{ n.__class__ is defined }}
{{ lines | replace('\r\n', '|') | replace('\n', '/') }} {{ lines.split('\n') }} {{ lines.strip().split('\n')[-1] }}
{{ ['a', 'b'] | join(d='+') }} {{ 'x'.join(['a']) }} {{ 10 | string | length }} {{ '%.3f' | format(3.14159) }} {{ 3.14159 | round(3) }} {{ 1234567.891 | round(1) }}
{{ "ǆabc straße ﬁ".upper() }} {{ "İI".lower() }} {{ 'ß'.title() }} {{ 'ñandú über'.title() }} {{ "ΑΣ".lower() }}
{% set j = joiner(', ') %}{% for x in l %}{{ j() }}{{ x }}{% endfor %}
{{ loop }}
{% for x in l %}{{ loop.nope }}|{{ loop['index'] }}{% endfor %}
{{ none | list }}
{{ none | length }}
{{ none is iterable }} {{ none | string }} {{ none ~ '' }} {{ [none, true] | join(',') }} {{ none | tojson }} {{ none | trim }} {{ n | upper }} {{ l | string }}
{% include 'x' %}
{% import 'x' as y %}
{% extends 'x' %}
{% do l %}
{% endif %}
{% if n %}
{{ n
{% for %}{% endfor %}
{{ 'abc }}
{% set true = 1 %}
{% break %}
{{ 1 + }}
{{ a b }}
{% set n.x = 1 %}
""".strip("\n").split("\n")


def render(text, **kw):
    try:
        return {"want": render_jinja_template([kw.pop("messages", [])], chat_template=text, **kw)[0][0]}
    except Exception as e:
        return {"error": f"{type(e).__name__}: {e}"}


def main():
    with open(here / "rendered.jsonl", "w") as out:
        for f in sorted((here / "templates").glob("*.jinja")):
            for name, messages, tools, args in cases.CASES:
                m = [cases.message(x) for x in messages]
                a = {"add_generation_prompt": True, **args}
                row = {"template": f.name, "case": name, "messages": m, "tools": tools, "args": args}
                row |= render(f.read_text(), messages=m, tools=tools, **cases.SPECIAL, **a)
                out.write(json.dumps(row, ensure_ascii=False) + "\n")
    with open(here / "snippets.jsonl", "w") as out:
        out.write(json.dumps({"vars": VARS}, ensure_ascii=False) + "\n")
        for s in SNIPPETS:
            out.write(json.dumps({"text": s} | render(s, **VARS), ensure_ascii=False) + "\n")


main()
