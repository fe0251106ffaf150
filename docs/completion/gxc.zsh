#compdef gxc gxrun
# Completion of gxc and gxrun for zsh. Options are what --help says, values what the lists of gxc say.
_gxc_values() {
  case $1 in
    --emit) print -l hlo pb dot html tile llvm ptx cubin tileir plan tuning candidates ;;
    --print) print -l default long short ;;
    --libraries) print -l all none cublaslt cudnn cusolver ;;
    --tiles) print -l auto gx tileir none ;;
    --f32-dots) print -l tf32 f32 ;;
    --assembler) print -l nvjitlink ptxas ;;
    --fp-contract) print -l off on ;;
    --report|--bench|--info|--memory) print -l text json ;;
    --target) $words[1] --list-targets | cut -d' ' -f1 ;;
    --passes|--skip|--print-after) $words[1] --list-passes | cut -d' ' -f1 ;;
    --explain) $words[1] --list-ops | cut -d' ' -f1 ;;
    --set) $words[1] --list-settings | cut -d' ' -f1 ;;
    --device) print -l auto cuda emu ref ;;
    --compare) print -l ref ;;
    --input) print -l random ;;
    *) return 1 ;;
  esac
}
_gxc_options() {
  $words[1] --help 2>/dev/null | sed -nE 's/^  (    |-., )(--[a-z0-9-]+=?).*/\2/p' | sort -u
}
_gxc() {
  local word=$words[CURRENT]
  local -a found
  if [[ $word == --*=* ]]; then
    if found=(${(f)"$(_gxc_values ${word%%=*} 2>/dev/null)"}) && (( $#found )); then
      compset -P '*[=,]'
      compadd -a found
    else
      compset -P '*=(@|)'
      _files
    fi
  elif [[ $word == -* ]]; then
    found=(${(f)"$(_gxc_options)"})
    compadd -S '' -- ${(M)found:#*=}
    compadd -- ${found:#*=}
  else
    _files
  fi
}
[[ $funcstack[1] == _gxc ]] && _gxc "$@"
(( $+functions[compdef] )) && compdef _gxc gxc gxrun
