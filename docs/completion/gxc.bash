# Completion of gxc and gxrun for bash. Options are what --help says, values what the lists of gxc say.
_gxc_values() { # program option
    case $2 in
    --emit) echo hlo pb dot html tile llvm ptx cubin tileir plan tuning candidates ;;
    --print) echo default long short ;;
    --libraries) echo all none cublaslt cudnn cusolver ;;
    --tiles) echo auto gx tileir none ;;
    --f32-dots) echo tf32 f32 ;;
    --assembler) echo nvjitlink ptxas ;;
    --fp-contract) echo off on ;;
    --report | --bench | --info | --memory) echo text json ;;
    --target) "$1" --list-targets | cut -d' ' -f1 ;;
    --passes | --skip | --print-after) "$1" --list-passes | cut -d' ' -f1 ;;
    --explain) "$1" --list-ops | cut -d' ' -f1 ;;
    --set) "$1" --list-settings | sed 's/ .*/=/' ;;
    --device) echo auto cuda emu ref ;;
    --compare) echo ref @ ;;
    --input) echo random @ ;;
    *) return 1 ;;
    esac
}
_gxc() {
    local program=$1 line=${COMP_LINE:0:COMP_POINT} word option values
    word=${line##* }
    option=${word%%=*}
    COMPREPLY=()
    if [[ $word == --*=* ]]; then
        local value=${word#*=} before=
        [[ $value == *,* ]] && before=${value%,*},
        if values=$(_gxc_values "$program" "$option" 2>/dev/null); then
            # bash divides words at "=": what it has of this word is the value
            COMPREPLY=($(compgen -P "$before" -W "$values" -- "${value##*,}"))
            [[ $COMP_WORDBREAKS == *=* ]] || COMPREPLY=("${COMPREPLY[@]/#/$option=}")
        else
            COMPREPLY=($(compgen -f -- "${value#@}"))
        fi
    elif [[ $word == -* ]]; then
        COMPREPLY=($(compgen -W "$("$program" --help 2>/dev/null | sed -nE 's/^  (    |-., )(--[a-z0-9-]+=?).*/\2/p' | sort -u)" -- "$word"))
    else
        COMPREPLY=($(compgen -f -- "$word"))
    fi
    [[ ${COMPREPLY[*]} == *= ]] && compopt -o nospace 2>/dev/null
    return 0
}
complete -o filenames -F _gxc gxc gxrun
