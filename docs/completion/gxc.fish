# Completion of gxc and gxrun for fish. Options are what --help says, values what the lists of gxc say.
function __gxc_values
    set -l program $argv[1]
    switch $argv[2]
        case emit
            printf '%s\n' hlo pb dot html tile llvm ptx cubin tileir plan tuning candidates
        case print
            printf '%s\n' default long short
        case libraries
            printf '%s\n' all none cublaslt cudnn cusolver
        case tiles
            printf '%s\n' auto gx tileir none
        case f32-dots
            printf '%s\n' tf32 f32
        case assembler
            printf '%s\n' nvjitlink ptxas
        case fp-contract
            printf '%s\n' off on
        case report bench info memory
            printf '%s\n' text json
        case target
            $program --list-targets | cut -d' ' -f1
        case passes skip print-after
            $program --list-passes | cut -d' ' -f1
        case explain
            $program --list-ops | cut -d' ' -f1
        case set
            $program --list-settings | sed 's/ .*/=/'
        case device
            printf '%s\n' auto cuda emu ref
        case compare
            printf '%s\n' ref
        case input
            printf '%s\n' random
    end
end
for program in gxc gxrun
    command -q $program; or continue
    for line in (command $program --help | string replace -r -f -- '^  (?:    |-., )(--[a-z0-9-]+(?:\[?=)?).*' '$1' | sort -u)
        set -l name (string replace -r -- '^--([a-z0-9-]+).*' '$1' $line)
        if test -n (__gxc_values true $name | head -n 1 | string collect)""
            complete -c $program -l $name -x -a "(__gxc_values $program $name)"
        else if contains $name target passes skip print-after explain set
            complete -c $program -l $name -x -a "(__gxc_values $program $name)"
        else if string match -q -- '*=' $line
            complete -c $program -l $name -r
        else
            complete -c $program -l $name
        end
    end
end
