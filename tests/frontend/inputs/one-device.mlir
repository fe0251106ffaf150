sdy.mesh @empty_mesh = <[]>
sdy.mesh @one = <["x"=1]>
func.func public @main(%arg0: tensor<2xui32>) -> (tensor<2xui32>) {
  %0 = sdy.sharding_constraint %arg0 <@empty_mesh, [{}]> : tensor<2xui32>
  %1 = sdy.sharding_constraint %0 <@one, [{"x"}]> : tensor<2xui32>
  %2 = stablehlo.custom_call @Sharding(%1) {mhlo.sharding = "{replicated}"} : (tensor<2xui32>) -> tensor<2xui32>
  %3 = stablehlo.add %1, %2 : tensor<2xui32>
  return %3 : tensor<2xui32>
}
