# What _gxc adds for a line, without a terminal: completion.test runs it in zsh.
zmodload -i zsh/parameter
compadd() {
  [[ $1 == -a ]] && { print -l -- "${(P@)2}" | grep -- "^$PREFIX" ; return; }
  shift $@[(i)--]
  print -l -- "$@" | grep -- "^$PREFIX"
}
compset() { PREFIX=${PREFIX##*[=,]}; }
_files() { print files; }
source $1
words=(${(z)2}); CURRENT=$#words; PREFIX=$words[CURRENT]
_gxc
:
