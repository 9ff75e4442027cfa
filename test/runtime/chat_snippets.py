"""Templates of a line or two: each uses one feature of the language."""

# White space: trim_blocks, lstrip_blocks, signs, comments, line ends.
SPACE = [
    "a\n  {% if true %}\nb\n  {% endif %}\nc\n",
    "a\n  {%- if true -%}\n b \n {%- endif +%}\n c\n\n",
    "a {%+ if true %} b {% endif %} c",
    "  {%+ if true %} b {% endif %}",
    "x {# comment #}\ny",
    "x {#- comment -#}\n y",
    "{#-#}x",
    "  {# a #}  {% if 1 %}x{% endif %}",
    "{{ 1 }}\n{{ 2 }}\n",
    "{{- 1 -}}\n\n {{ 2 }}",
    "a\r\nb\rc{% if 1 %}\r\nd{% endif %}\r\n",
    "\n\n{% set x = 1 %}\n\n{{ x }}\n\n",
    "\u3000{%- if 1 %}x{% endif -%}\u2003y",
    "{% for i in [1,2] %}\n  {{ i }}\n{% endfor %}\nz",
    "{{ {'a': {'b': 1}}['a']['b'] }}}}",
    "{ % { {%",
    "a{{ '}}' }}b{{ \"%}\" }}c",
]

VALUES = """
1 | 1.5 | 1e16 | 1e15 | 1e-5 | 0.1 | 1.0 | 100000.0 | 123456789.25 | 1e22 | -0.0
true | True | none | None | false | 'a' 'b' | "q\\"'\\n\\t\\\\\\x41\\u00e9\\q" | 1_000
[] | [1, 'a', none, true, 1.5, [2]] | () | (1,) | (1, 2) | {} | {'a': 1, "b'": 'c"'}
['it\\'s', "q\\"", 'both\\'"', '\\n\\t\\r\\\\', 'é日', '\\x7f\\x01', '\\u200b\\xa0']
1 + 2 * 3 | (1 + 2) * 3 | 7 // 2 | -7 // 2 | 7 % 3 | -7 % 3 | 7 % -3 | 7 / 2 | 4 / 2
2 - 3 - 4 | -2 | - 2 * 3 | +3 | 7.5 // 2 | 7.5 % 2 | 1 / 0 | 1 % 0 | 'a' * 3 | true + 1
'a' + 'b' | 'a' + 1 | 1 + 'a' | [1] + [2] | 'a' ~ 1 ~ none | 1 ~ 2 + 3 | (1,) + (2,)
1 < 2 | 1 < 2 < 3 | 3 > 2 > 2 | 'a' < 'b' | 1 == 1.0 | 1 == '1' | true == 1 | [1] == [1]
none == none | nope == nope2 | nope == none | {'a': 1} == {'a': 1.0} | 1 != 2 | (1,) == [1]
'a' in 'abc' | 1 in [1, 2] | 'a' in {'a': 1} | 1 not in [2] | 'x' in nope | 1 in 'a'
not true | not 1 == 2 | true and 'x' | '' or 'y' | 0 and nope.x | 1 or nope.x | not nope
'y' if true else 'n' | 'y' if false | 'a' if false else 'b' if false else 'c'
'abc'[0] | 'abc'[-1] | 'abc'[5] | 'abcdef'[1:3] | 'abcdef'[::-1] | 'abcdef'[-2:] | 'aé日'[1:]
[1,2,3,4][1:-1] | [1,2,3][::2] | [1,2,3][-10:10] | [1,2,3][5:] | [1,2,3][::-2] | [1,2][9]
[1,2,3][2:0:-1] | (1,2,3)[1:] | {'a': 1}['a'] | {'a': 1}['b'] | {'a': 1}.a | {'a': 1}.b
9223372036854775807 + 1 | 18446744073709551615 * 2 | -9223372036854775808 - 1 | 2 - 18446744073709551616
99999999999999999999 // 7 | -99999999999999999999 // 7 | 99999999999999999999 % 7 | 99999999999999999999 % -7
9007199254740993 == 9007199254740992.0 | 9007199254740993 > 9007199254740992.0 | 1 // 0.1 | -1 // 0.1 | 7 // -0.5
99999999999999999999 == 1e20 | 100000000000000000000 == 1e20 | 99999999999999999999 < 1e20 | 1e300 > 1 | -1e300 > 1
1 < 2 > 1 | 3 > 2 == 2 | 1 < 3 < 2 | 1 in [1] == true | not 1 < 2 | 1 not in [1] in [false] | 'a' < 'b' < 'c' != 'd'
1e308 * 10 - 1e308 * 10 >= 1 | 1 <= 1e308 * 10 - 1e308 * 10 | 1e308 * 10 > 99999999999999999999 | 0.0 // 5 | -0.0 // 5
1 + 2 ~ 3 * 4 | 1 ~ 2 * 3 ~ 4 | 1 or 2 and 3 | not 1 or 2 | 1 == 1 and not 2 == 3 | 6 // 4 * 2 % 5 | 1 - -1 | - 1 ~ 2
5[0] | none.x | none['x'] | nope | nope.x | nope[0] | nope() | nope[1:] | 'a'.b
1 is odd is true | 1 is eq 1 is true | none is none is not true
{'items': 1}.items is callable | {'items': 1}['items'] | [1, [2, 3]].1.0
""".replace("|", "\n")

FILTERS = """
'  a b '|trim;'xxaxx'|trim('x');1|trim;nope|trim;none|trim;'aBc'|upper;'ABC'|lower
'hello wORLD'|capitalize;"it's a-b (c) [d] x"|title;'aXbXc'|replace('X', '-')
'aXbXc'|replace('X', '', 1);[1,2]|length;'aé日'|length;{'a':1}|length;5|length;nope|length
nope|default('d');none|default('d');none|default('d', true);''|d('x', boolean=true);nope|d
[1,'a',none]|join;[1,2]|join(', ');'abc'|join('-');[{'a':1},{'a':2}]|join(',', attribute='a')
[]|join(',');{'a':1}|list;'aé'|list;[1,2]|first;[]|first;[1,2]|last;'ab'|last;[1,2]|reverse|list
'abé'|reverse;[1,2]|string;'a'|string;1.5|int;'12'|int;' 7 '|int;'x'|int;'x'|int(5);true|int
{'a':1,'b':2}|items|list;nope|items|list;'a'|safe;[3,1]|map('string')|join('+')
['a','b']|map('upper')|list;[{'x':{'y':1}}]|map(attribute='x.y')|list;['a']|map('replace','a','b')|list
[{'x':1},{}]|map(attribute='x', default=0)|list;[[1,2]]|map(attribute=1)|list
[1,0,2]|select|list;[1,0]|reject|list;[1,2,3]|select('odd')|list;[1,2]|reject('equalto', 1)|list
[{'r':'u'},{'r':'s'}]|selectattr('r','equalto','u')|list;[{'a':1},{}]|selectattr('a')|list
[{'a':1},{}]|selectattr('a','defined')|list;[{'a':1},{'a':2}]|rejectattr('a','==',1)|list
[{'a':1}]|selectattr('a','in',[1])|list;[1]|select('odd')|length;'x' if []|select('odd') else 'y'
{'a':[1,{'b':none}]}|tojson;'<é>&"\\n\\x01\\x7f\\u2028'|tojson;[1.5,1e20,true]|tojson(indent=2)
{'b':1,'a':2}|tojson(sort_keys=true);'é😀'|tojson(ensure_ascii=true);[]|tojson(indent=2)
[1,2]|tojson(separators=(',',':'));[1,[2]]|tojson(indent=-1);[1]|tojson(indent=true);[1]|tojson(indent=1.5)
18446744073709551615|tojson;'99999999999999999999'|int;'+-5'|int;'+5'|int;'-5'|int;'1_000'|int;'_1'|int;'1__0'|int
'inf'|int;'nan'|int(3);'1e5'|int;'5.'|int;'.5'|int;'0x10'|int;''|int;'+'|int;1e19|int;-1.5|int;'1_0.5'|int;'٣'|length
{'b':1,'a':2,'b':3}|tojson;{'é':1,'e':2,'z':3}|tojson(sort_keys=true);dict({'a':1}, b=2, a=3)|tojson;'ab'|reverse
"a'b"|list;"\\"|list;['a\\b']|string;'a'|tojson(separators=none);1.5|tojson(sort_keys=true)
{}|tojson;nope|tojson;{'a':{}, 'b':[]}|tojson(indent=4)
'a' + ' b '|trim + 'c';-1|string;('a'+'b')|upper;1|string|length;'a,b'.split(',')|join('|')
""".replace(";", "\n")

TESTS = """
nope is defined;1 is defined;nope is undefined;none is none;1 is not none;'a' is string
1 is number;true is number;1.5 is float;1 is integer;true is integer;true is boolean
{} is mapping;[] is sequence;'a' is sequence;{} is sequence;1 is sequence;[] is iterable
1 is iterable;nope is iterable;nope is sequence;true is true;1 is true;false is false
1 is eq 1;1 is equalto(2);'a' is in 'abc';1 is in [1];3 is odd;3 is even;6 is divisibleby 3
1 is lt 2;2 is gt 1;2 is ge 2;2 is le(1);1 is ne 2;none is sameas none;1 is sameas true
nope is none;not 1 is string;1 is string or 2 is number;1 is odd and 2 is even;[1] is mapping
range is callable;nope is callable;-1 is odd;1 is number == true;'a' is string and 'b'
""".replace(";", "\n")

METHODS = """
' a '.strip();'xax'.strip('x');' a '.lstrip();' a '.rstrip() + '.';'\\n a\\n'.strip('\\n')
'a b  c'.split();' a b '.split();'a,b,c'.split(',');'a,b,c'.split(',', 1);'abc'.split('x');''.split(',')
'a b c'.split(none, 1);' a  b  c '.split(none,1);'a,b,c'.rsplit(',', 1);''.split();'a b '.rsplit()
'abc'.startswith('ab');'abc'.endswith('bc');'abc'.startswith(('x','a'));'a'.startswith('')
'aXbX'.replace('X','y');'aXbX'.replace('X','y',1);'aé日b'.find('日');'abc'.find('z');'abab'.rfind('b')
'abab'.count('ab');'aB'.upper();'aB'.lower();"they're b.a x1y".title();'aBC d'.capitalize()
', '.join(['a','b']);', '.join([1]);'a\\nb\\n'.splitlines();''.splitlines();'12'.isdigit();'a1'.isalpha()
'a\\r\\nb\\rc\\x0bd\\x85e\\u2028'.splitlines();'\\n\\na'.splitlines();'aXbX'.replace('X','','1');'a'.split('a', 1.5)
'aaaa'.count('aa');'aaa'.rfind('aa');'aaa'.find('');'aaa'.rfind('');'aXXXb'.rsplit('XX');'aXXXb'.split('XX');'XaX'.rsplit('X', 1)
'é日é日'.rfind('é');'日本日本'.rsplit('本');'é,日'.rsplit(',', 0);'aé日b'[::-2];'aé日b'[1];'aé日b'[-1:0:-1];'aé日b'[1:3]
range == range;range == dict;'a' * 0;'a' * -1;[1] * 0;'é' * 3;[1] * 2;'' * 5
' '.isspace();''.isdigit();{'a':1}.get('a');{'a':1}.get('b');{'a':1}.get('b', 2);{'a':1}.keys()|list
{'a':1}.values()|list;{'a':1}.items()|list;'a'.nope();[1].append(2);{}.update({'a':1});'a'.split('')
''.__class__.__mro__;[].__len__();''.__class__();range.__globals__['os']
""".replace(";", "\n")

FUNCTIONS = """
range(3)|list;range(1,4)|list;range(5,0,-2)|list;range(0)|list;range(3)[1];range(1000000)|length
dict(a=1)['a'];dict(a=1, b='x')|tojson;strftime_now('%Y-%m-%d');strftime_now('');raise_exception('no')
range(1.5)|list;range(true)|list;range(9223372036854775800, 9223372036854775810)|list;namespace({'a': 1}, b=2).b
namespace(a=1).a;namespace(a=1).b;namespace()['x'];range(1,2,0)|list;range('a')|list
""".replace(";", "\n")

STATEMENTS = [
    "{% set a, b = 1, 2 %}{{ a }}{{ b }}",
    "{% set a = 1, 2 %}{{ a }}",
    "{% set (a, b) = [1, 2] %}{{ a + b }}",
    "{% set a, b = [1] %}{{ a }}",
    "{% set x %}a{{ 1 }} b{% endset %}[{{ x }}]",
    "{% set x | upper | trim %} ab {% endset %}[{{ x }}]",
    "{% set n = namespace(x=1) %}{% for i in [1,2] %}{% set n.x = n.x + i %}{% endfor %}{{ n.x }}",
    "{% set x = 1 %}{% for i in [1] %}{% set x = 2 %}{{ x }}{% endfor %}{{ x }}",
    "{% set x = 1 %}{% if true %}{% set x = 2 %}{% endif %}{{ x }}",
    "{% for i in [1,2,3] %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}"
    "{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }};{% endfor %}",
    "{% for i in [1,2] %}{{ loop.previtem }},{{ loop.nextitem }};{% endfor %}",
    "{% for i in [1,2] %}{{ loop.previtem is defined }}{{ loop.nextitem is defined }}{% endfor %}",
    "{% for i in [] %}x{% else %}empty{% endfor %}",
    "{% for i in [1,2,3,4] if i is even %}{{ i }}{{ loop.length }}{% else %}n{% endfor %}",
    "{% for i in [1,2] if i > 5 %}x{% else %}none{% endfor %}",
    "{% for k, v in {'a': 1, 'b': 2}.items() %}{{ k }}={{ v }};{% endfor %}",
    "{% for k, v in {'a': 1}.items() if k != 'a' %}x{% endfor %}",
    "{% for (a, b) in [(1, 2), [3, 4]] %}{{ a }}{{ b }}{% endfor %}",
    "{% for c in 'aé' %}{{ c }},{% endfor %}{% for k in {'x': 1} %}{{ k }}{% endfor %}",
    "{% for i in nope %}x{% else %}e{% endfor %}",
    "{% for i in none %}x{% endfor %}",
    "{% for i in 5 %}x{% endfor %}",
    "{% for i in 1, 2 %}{{ i }}{% endfor %}",
    "{% for i in [1,2,3] %}{% if i == 2 %}{% continue %}{% endif %}{{ i }}{% endfor %}",
    "{% for i in [1,2,3] %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}",
    "{% for i in [1,2] %}{% for j in [1,2] %}{% if j == 2 %}{% break %}{% endif %}"
    "{{ i }}{{ j }}{{ loop.index }}{% endfor %}{{ loop.index }}{% endfor %}",
    "{% if nope %}a{% elif 0 %}b{% elif 1 %}c{% else %}d{% endif %}",
    "{% if messages %}a{% endif %}{% if not messages %}b{% endif %}",
    "{% macro m(a, b='x') %}[{{ a }}{{ b }}]{% endmacro %}{{ m(1) }}{{ m(1, 2) }}{{ m(b=3, a=4) }}",
    "{% macro m(a) %}{{ a is defined }}{% endmacro %}{{ m() }}",
    "{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}",
    "{% macro m(a) %}{% endmacro %}{{ m(z=2) }}",
    "{% set y = 5 %}{% macro m() %}{{ y }}{% endmacro %}{{ m() }}",
    "{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(5) }}",
    "{% macro m(x) %}{% for i in x %}{{ i }}{% endfor %}{% endmacro %}{{ m([1,2])|length }}",
    "{% generation %}a{% set q = 1 %}{{ q }}{% endgeneration %}{{ q }}",
    "{{ messages[0].role }}{{ messages[-1]['role'] }}{{ messages|length }}",
    "{{ messages | map(attribute='role') | list }}",
    "{{ tools is none }}{{ documents is none }}{{ add_generation_prompt }}{{ nope is none }}",
    "{{ messages }}",
    "{{ bos_token }}{{ eos_token }}{{ unk_token }}{{ pad_token is defined }}",
    "{% set x = 1 %}{{ x }}{% set x = x + 1 %}{{ x }}",
    "{% set x.y = 1 %}",
    "{% for i in [1] %}{% set loop.x = 1 %}{% endfor %}",
    "{% for i in [1] %}{{ loop.nope is defined }}{{ loop['index'] }}{% endfor %}",
    "{% set n = namespace(b=1) %}{% set n.a = 2 %}{% set n.b = 3 %}{{ n.a }}{{ n.b }}",
    "{% set d = {'b': 1, 'a': 2, 'b': 3} %}{{ d }}{% for k in d %}{{ k }}{{ d[k] }}{% endfor %}",
    "{% set messages.y = 1 %}",
    "{{ (messages[0].content if messages[0].content is string else '') | trim }}",
    "{{ 'a' if messages }}{{ 'b' if not messages }}",
    "{{ messages[0] | tojson }}{{ messages[0] }}",
]

# What public templates rarely use.
RARE = """
{'b':2,'A':1,'c':[]}|dictsort;{'b':1,'A':2}|dictsort(true);{'b':1,'a':2}|dictsort(by='value');{'b':1,'a':2}|dictsort(false,'key',true)
{'b':1,'a':'x'}|dictsort(by='value');[1]|dictsort;{}|dictsort;{'a':1}|dictsort(by='no');nope|dictsort
[3,1,2]|sort;['b','A','c']|sort;['b','A']|sort(case_sensitive=true);[1,2]|sort(reverse=true);[1,'a']|sort;'ba'|sort;[{'a':2},{'a':1}]|sort(attribute='a')
[{'a':1,'b':2},{'a':1,'b':1}]|sort(attribute='a,b');[]|sort;[none,1]|sort;[[2],[1]]|sort;[{'a':1}]|sort(attribute='z');[2.5,2,true]|sort
['a','A','b']|unique|list;['a','A']|unique(true)|list;[1,1.0,2]|unique|list;[{'a':1},{'a':1}]|unique(attribute='a')|list;[]|unique|list
[3,1]|min;[3,1]|max;['b','A']|max;['b','A']|min;[]|max;[{'a':1},{'a':2}]|max(attribute='a');['a','A']|max;['a','A']|min
[1,2]|sum;[]|sum;[1,2]|sum(start=10);[{'a':1},{'a':2.5}]|sum(attribute='a');['a']|sum;[[1],[2]]|sum(start=[])
[1,2,3]|batch(2)|list;[1,2,3]|batch(2,'x')|list;[]|batch(2)|list;'abc'|batch(2)|list;[1,2]|batch(2,0)|list
'1.5'|float;'x'|float;'x'|float(2.5);1|float;' 3 '|float;true|float;none|float;-1|abs;-1.5|abs;true|abs;'a'|abs
1.55|round(1);2.5|round;42.7|round(method='floor');42.1|round(0,'ceil');1.005|round(2);3.14159|round(3);'a'|round
'a\nb\n\nc'|indent;'a\nb'|indent(2);'a\n\nb'|indent(2,true);'a\n\nb'|indent(2,true,true);'a\nb'|indent('> ');''|indent;'a\n'|indent;'\na'|indent(first=true)
'a b  c-d'|wordcount;''|wordcount;'ab'|center(5);'ab'|center(6);'a'.center(4);'ab'.center(5);'a'.ljust(3) + '.';'a'.rjust(3);'abc'.rjust(2)
'abc'.removeprefix('a');'abc'.removeprefix('b');'abc'.removesuffix('bc');''.removesuffix('x');'a'.removesuffix('');'a'.removeprefix('ab')
'a=b=c'.partition('=');'a=b=c'.rpartition('=');'abc'.partition('=');'abc'.rpartition('=');'a'.partition('')
'aB1'.isalnum();'a b'.isalnum();'12'.isnumeric();'12'.isdecimal();'AB1'.isupper();'1'.isupper();'ab'.islower();'aB'.islower();'A' is upper;'a' is lower;1 is upper
'%s and %s' % ('a', 1);'%s' % 'x';'%d' % 3.7;'%05d|%-5d|%+d' % (3, 4, 5);'%.2f' % 1.005;'%5.1f' % 2.25;'%%' % ();'%s' % (1,2);'%s %s' % 1;'%s' % [1,'a'];'%r' % 'a'
'%(a)s-%(b)d' % {'a': 1, 'b': 2};'%d' % 'x';'x' % 1;'x' % {};'x' % [1];'%-5s|%5s|%.2s' % ('ab','cd','efg');'%s %s'|format('a', 2);'%(x)s'|format(x=1);'%f' % 1;'%05.1f' % -2.5
'{} {}'.format(1, 'b');'{1}{0}'.format('a','b');'{x}'.format(x=2);'{{}}'.format();'{}'.format();'{'.format(1);'}'.format(1);'a'.format(1)
2 ** 3;2 ** -1;2 ** 0.5;-2 ** 2;2 ** 3 ** 2;2 * 3 ** 2;(-1) ** 3;0 ** 0;1 ** 1000000;'a' ** 2;4 ** 0.5;true ** 2;10 ** 20
[1,2,1].index(2);[1].index(3);[1,2,1].count(1);(1,2).index(2);{'a':1}.copy();[1]|attr('x');{'a':1}.copy().a
range(*[1,5])|list;range(*(1,5))|list;dict(**{'a':1});dict(a=0, **{'b':1});'a-b'.replace(*['-','+']);range(1, *[3])|list;dict(**[1]);range(*none)|list;'a'|replace(*['a','b'])
dict(a=1, **{'a':2});range(*[1], 5)|list;dict(**{'a':1}, b=2);dict(**{}, **{});nope(*[1]);raise_exception(*['x'])
{0:'a',512:'b'}[512];{0:1,16:2,8:3}|dictsort;{1:'a',true:'b',1.0:'c'};{1:2,'a':3,none:4,2.5:5};{1:2}[2];{1:2}.get(1);{1:2}.get('1',3)
1 in {1:2};'1' in {1:2};true in {1:2};none in {none:1};{1:2}==({true:2});{1:1}=={'1':1};{2:'b',1:'a'}|tojson(sort_keys=true);{1:'a',none:2,true:3,1.5:{}}|tojson
{1:1,'a':2}|tojson(sort_keys=true);{1:1,'a':2}|dictsort;{[1]:2};{1:2}|list;dict({1:2},a=3);dict(**{1:2});{'a':1}[0];{none:1}|dictsort;{none:1}|tojson(sort_keys=true)
none|selectattr('a')|list;none|select|list;0|reject('odd')|list;''|map('upper')|list;false|rejectattr('a','eq',1)|list;none|map(attribute='a')|list;1|select|list;true|map('upper')|list
none|sum;none|list;none|join;none|first;none|sort;none|unique|list
'a'|safe + '<b>';'<' + 'a&'|safe;'"'|safe + "'";('a'|safe + '<') + '>';'<'|safe ~ '<';['<'|safe];'<'|safe|string + '<';5|safe + '<';'<'|safe == '<';'a'|safe + 1
'<a href="x">\'&'|e;'<'|escape|e;'<'|e + '<';'<'|safe|e;5|e;nope|e;'<'|safe|upper;('<'|safe)|tojson;'é<'|e;('a<'|safe)|length;'<'|safe in '<'
'abc'|replace(old='a',new='c');'abc'|replace('a',new='c',count=1);'0x1f'|int(base=10);{'a':1}|items is iterable;raise_exception(message='x')
range(3)[1:]|list;range(3)|length;range(3)[1];{'a':1}.keys()|length;{'a':1}.items()|list;{}.values()|list or 1;range(3) + [1];range(2) == [0,1]
""".replace(";", "\n")

# What ours refuses, or does as they do: an argument must not be ignored.
ARGUMENTS = """
'12'|int(3, 16);'0x1f'|int(base=16);[1]|first(1);1|string(2);'aaa'.count('a', 1);'aaa'.find('a', 1);'abc'.startswith('b', 1)
'abc'.endswith('b', 0, 2);[1,2].index(1, 1);'abc'.replace('a', 'b', count=1);'a'.center(width=9);{'a':1}.get('b', default=3);{'a':1}.get(key='a')
strftime_now(nope='%Y');dict([('a',1)]);dict(1);namespace(1).a;[1]|indent;5|indent;nope|indent;'a'|upper(x=1);1 is eq;1 is odd(2);1 is eq(1, 2)
'a'|replace('a', 'b', old='c');range(1, 2, 3, 4)|list;[1]|join(', ', attr='x');{'a':1}.keys();{'a':1}.items()[0];range(3);{'b':1}.values()[:1];range(2)|string
[3]|map('int', 1, 2, 3)|list;'a'|trim('a', 'b');[1]|batch;[1]|select('eq', 1, 2)|list;{'a':1}.values() + [1];{'a':1}.items() * 2;range(2)|tojson
""".replace(";", "\n")

BLOCKS = [
    "{% raw %}{{ a }}{% b %}{% endraw %}x",
    "a\n  {% raw %}\n {{ x }}\n  {% endraw %}\nb",
    "a {%- raw -%}  {% x  {%- endraw -%}  b",
    "{%raw%}{#{%endraw%}{% raw %}{% endraw +%}\nx",
    "{% raw %}x",
    "{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}{{ a is defined }}",
    "{% set a = 5 %}{% with a = 1, b = a %}{{ a }}{{ b }}{% set c = 3 %}{% endwith %}{{ a }}{{ c }}",
    "{% with %}{% set q = 1 %}{{ q }}{% endwith %}{{ q }}",
    "{% for i in [1,2,3] %}{% with x = i %}{% if x == 2 %}{% continue %}{% endif %}{{ x }}{% endwith %}{% endfor %}",
    "{% filter upper %}ab{{ 'c' }}{% endfilter %}",
    "{% filter replace('a', 'b') | trim %} aa {% set z = 1 %}{% endfilter %}{{ z }}",
    "{% macro m(x) %}[{{ caller() }}{{ x }}]{% endmacro %}{% call m(1) %}in{% endcall %}",
    "{% macro m() %}{{ caller(1, b=2) }}{% endmacro %}{% call(a, b, c=3) m() %}{{ a }}{{ b }}{{ c }}{% endcall %}",
    "{% macro m() %}{{ caller is defined }}{% endmacro %}{{ m() }}",
    "{% macro m() %}{{ caller() }}{% endmacro %}{{ m() }}",
    "{% macro m() %}x{% endmacro %}{% call m() %}y{% endcall %}",
    "{% macro m() %}<{{ caller() }}>{% endmacro %}{% for i in [1,2] %}{% set j = i %}{% call m() %}{{ i }}{{ j }}{{ loop.index }}{% endcall %}{% endfor %}",
    "{% macro a() %}({{ caller() }}){% endmacro %}{% macro b() %}[{% call a() %}{{ 1 }}{% endcall %}]{% endmacro %}{{ b() }}",
    "{% macro a() %}({{ caller() }}){% endmacro %}{% call a() %}{% call a() %}x{% endcall %}{% endcall %}",
    "{% call upper %}x{% endcall %}",
    "{% call 1 %}x{% endcall %}",
    "{% macro m(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, 3, x=4) }}{{ m() }}",
    "{% macro m(a, b) %}{{ a }}{{ b }}{% endmacro %}{{ m(*[1, 2]) }}{{ m(**{'b': 1, 'a': 2}) }}{{ m(1, **{'b': 3}) }}",
    "{% for x in [1,2] %}{% macro m() %}{{ x }}{% endmacro %}{{ m() }}{% endfor %}",
    "{% macro o() %}{% set v = 7 %}{% macro i() %}{{ v }}{% endmacro %}{{ i() }}{% endmacro %}{{ o() }}",
    "{% for i in [1,2,3] %}{{ loop.cycle('a', 'b') }}{{ loop.depth }}{{ loop.depth0 }}{% endfor %}",
    "{% for i in [1] %}{{ loop.cycle() }}{% endfor %}",
    "{% for k, v in {'b': 1, 'a': 2} | dictsort %}{{ k }}={{ v }};{% endfor %}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, a=2) }}",
    "{% macro m(a) %}{{ a }}{{ kwargs }}{% endmacro %}{{ m(1, a=2) }}",
    "{% for i in [1,2] %}{{ i }}{% continue %}{% else %}e{% endfor %}",
    "{% for i in [1,2] %}{{ i }}{% if i == 2 %}{% break %}{% endif %}{% else %}e{% endfor %}",
    "{% for loop in [1] %}{{ loop }}{% endfor %}",
    "{% set n = namespace(_x=1) %}",
    "{% set n = namespace({'_x': 1}) %}",
]

# What both refuse.
WRONG = [
    "{% if %}",
    "{% if 1 %}",
    "{% endif %}",
    "{% for %}{% endfor %}",
    "{% for i in %}{% endfor %}",
    "{{ 1 + }}",
    "{{ (1 }}",
    "{{ [1, }}",
    "{{ 'a }}",
    "{{ 1 2 }}",
    "{{",
    "{%",
    "{# x",
    "{{ a.b. }}",
    "{{ ) }}",
    "{{ a | }}",
    "{% nonsense %}",
    "{% break %}",
    "{% else %}",
    "{{ 1 | nonsense }}",
    "{{ 1 is nonsense }}",
    "{% set = 1 %}",
    "{% set a %}",
    "{% macro %}{% endmacro %}",
    "{{ $ }}",
    "{% if 1 %}{% elif %}{% endif %}",
    "{{ a! }}",
    "{{ {1 2} }}",
    "{{ x[ }}",
    "{% include 'x' %}",
    "{% import 'x' as y %}",
    "{% extends 'x' %}",
]


def _expressions(lines):
    parts = [part.strip() for part in lines.strip().splitlines()]
    return ["{{ " + part + " }}" for part in parts if part]


def combinations(draw, count):
    """Expressions made of the ones above: most make no sense, and some do."""
    lines = (VALUES, FILTERS, TESTS, METHODS)
    parts = [s[3:-3] for text in lines for s in _expressions(text) if "safe" not in s]
    operators = "+ - * // % / ~ == != < >= in and or".split() + ["not in"]
    filters = "trim upper length list first last tojson string join int reverse".split()
    bounds = ["", "0", "1", "-1", "2", "-3", "none", "true"]
    for _ in range(count):
        a, b, c = (f"({draw.choice(parts)})" for _ in range(3))
        yield draw.choice(
            [
                f"{{{{ {a} {draw.choice(operators)} {b} }}}}",
                f"{{{{ {a} {draw.choice(operators)} {b} {draw.choice(operators)} {c} }}}}",
                f"{{{{ {a}|{draw.choice(filters)} }}}}",
                f"{{{{ {a}|{draw.choice(filters)}|{draw.choice(filters)} }}}}",
                f"{{{{ {a}[{b}] }}}}",
                f"{{{{ {a}[{draw.choice(bounds)}:{draw.choice(bounds)}] }}}}",
                f"{{{{ {a} if {b} else {c} }}}}",
                f"{{% set x = {a} %}}{{{{ x }}}}{{{{ x is defined }}}}{{{{ [x, {b}] }}}}",
                f"{{% for i in {a} %}}{{{{ i }}}},{{{{ loop.last }}}}{{% else %}}e{{% endfor %}}",
                f"{{% if {a} %}}y{{% elif {b} %}}z{{% else %}}n{{% endif %}}",
            ]
        )


SNIPPETS = (
    SPACE
    + [s for lines in (VALUES, FILTERS, TESTS, METHODS, FUNCTIONS) for s in _expressions(lines)]
    + STATEMENTS
    + _expressions(RARE)
    + BLOCKS
    + WRONG
)

MAY_REFUSE = _expressions(ARGUMENTS)
