"""Nodes that make no sense, one a line: `[@opset] Operator <attributes> | inputs | words that the message has, after commas`.

Inputs are types, `int64[1]={5}` an initialiser, `-` one that is left out. Schemas rule few of them out: they say
neither ranks nor sizes.
"""

LOAD = (
    """
Softmax <axis = -3> | float[2,3] | axis, -3
LogSoftmax <axis = 2> | float[2,3] | axis, 2
Hardmax <axis = 9> | float[2,3] | axis, 9
@11 Softmax <axis = 5> | float[2,3] | axis, 5
LpNormalization <axis = 4> | float[2,3] | axis, 4
LpNormalization <axis = 0, p = 3> | float[2,3] | p, 3
Flatten <axis = 3> | float[2,3] | axis, 3
Flatten <axis = -3> | float[2,3] | axis, -3
Concat <axis = 2> | float[2,3], float[2,3] | axis, 2
Concat <axis = 0> | float[2,3], float[2,4] | 3, 4
Concat <axis = 0> | float[2,3], float[3] | rank
Concat <axis = 0> | float, float | rank
Split <axis = 2, num_outputs = 1> | float[2,3] | axis, 2
Split <num_outputs = 0> | float[2,3] | num_outputs, 0
Split <num_outputs = 4> | float[2,3] | num_outputs, 4
Split | float[4], int64[1]={-4} | -4
Split | float[4], int64[1]={5} | 5, 4
Gather <axis = 2> | float[2,3], int64[1] | axis, 2
Gather | float[2,3], int64[1]={2} | indices, 2
Gather | float[2,3], int64[1]={-3} | indices, -3
Gather <axis = 1> | float[2,3], int32[1]={3} | indices, 3
Gather | float, int64[1] | rank 0
GatherElements <axis = 2> | float[2,3], int64[2,3] | axis, 2
GatherElements | float[2,3], int64[2] | rank, 1
GatherElements <axis = 1> | float[2,3], int64[3,3] | 3, 2
GatherElements <axis = 0> | float[2,3], int64[1,3]={0,1,7} | indices, 7
GatherND <batch_dims = 2> | float[2,3], int64[2,1] | batch_dims, 2
GatherND <batch_dims = -1> | float[2,3], int64[2,1] | batch_dims, -1
GatherND | float[2,3], int64[2,3] | 3, rank 2
GatherND <batch_dims = 1> | float[2,3], int64[3,1] | 2, 3
GatherND | float[2,3], int64[1,1]={2} | index, 2
ScatterElements <axis = 2> | float[2,3], int64[1,3], float[1,3] | axis, 2
ScatterElements | float[2,3], int64[1,3], float[2,3] | 1, 2
ScatterElements | float[2,3], int64[3], float[3] | rank
ScatterElements <reduction = "avg"> | float[2,3], int64[1,3], float[1,3] | reduction, avg
ScatterElements | float[2,3], int64[1,3]={0,1,2}, float[1,3] | indices, 2
ScatterND <reduction = "nan"> | float[2,3], int64[1,1], float[1,3] | reduction, nan
ScatterND | float[2,3], int64[1,3], float[1] | 3, rank 2
ScatterND | float[2,3], int64[1,1], float[1,4] | 3, 4
ScatterND | float[2,3], int64[1,1], float[3] | rank
ScatterND | float[2,3], int64[1,1]={-3}, float[1,3] | index, -3
@9 Scatter <axis = 2> | float[2,3], int64[1,3], float[1,3] | axis, 2
ArgMax <axis = 2> | float[2,3] | axis, 2
ArgMin <axis = -3> | float[2,3] | axis, -3
ReduceSum | float[2,3], int64[1]={2} | axis, 2
ReduceSum | float[2,3], int64[2]={0,0} | twice
ReduceSum | float[2,3], int64[2]={0,-2} | twice
@11 ReduceMean <axes = [5]> | float[2,3] | axis, 5
@11 ReduceMax <axes = [-3]> | float[2,3] | axis, -3
ReduceMax | float[2,3], int64[1,1]={0} | rank 2
CumSum | float[2,3], int64={2} | axis, 2
CumSum | float[2,3], int64[2]={0,1} | one element
TopK <axis = 2> | float[2,3], int64[1]={1} | axis, 2
TopK | float[2,3], int64[1]={4} | 4, 3
TopK | float[2,3], int64[1]={-1} | -1
TopK | float[2,3], int64[2]={1,1} | K, 2
TopK | float, int64[1]={1} | axis, -1
@9 TopK <axis = 2, k = 1> | float[2,3] | axis, 2
@9 TopK <axis = 1, k = -1> | float[2,3] | k, -1
Transpose <perm = [0, 0]> | float[2,3] | perm, [0\\, 0]
Transpose <perm = [0]> | float[2,3] | perm, [0]
Transpose <perm = [1, 2]> | float[2,3] | perm, [1\\, 2]
Transpose <perm = [-1, 0]> | float[2,3] | perm, -1
Squeeze | float[1,3], int64[1]={1} | axis, 1
Squeeze | float[1,3], int64[1]={2} | axis, 2
Squeeze | float[1,3], int64[2]={0,0} | twice
@11 Squeeze <axes = [-4]> | float[1,3] | axis, -4
Unsqueeze | float[3], int64[1]={3} | axis, 3
Unsqueeze | float[3], int64[2]={0,0} | twice
Unsqueeze | float[3], int64[2]={0,-3} | twice
@11 Unsqueeze <axes = [-3]> | float[3] | axis, -3
Unsqueeze | float[3], int64[1,1]={0} | rank 2
Reshape | float[2,3], int64[1]={5} | 6, 5
Reshape | float[2,3], int64[2]={-1,-1} | -1
Reshape | float[2,3], int64[2]={-2,3} | -2
Reshape | float[2,3], int64[3]={2,3,0} | 0
Reshape | float[2,3], int64[2]={4,-1} | 6
Reshape <allowzero = 1> | float[2,3], int64[2]={0,-1} | 0, -1
Reshape | float[2,3], int64[1,2]={2,3} | shape, rank
Reshape | float[2,3], int64[2]={4294967296,4294967296} | 4294967296
Reshape | float[2,3], int64[3]={9223372036854775807,9223372036854775807,-1} | 9223372036854775807
@1 Reshape <shape = [5]> | float[2,3] | 6, 5
Expand | float[2,3], int64[2]={2,4} | 3, 4
Expand | float[2,3], int64[2]={2,-1} | -1
Expand | float[2,3], int64[2]={-2,1} | -2
Expand | float[1], int64[1]={4611686018427387904} | 4611686018427387904
Expand | float[1], int64[3]={4294967296,4294967296,4294967296} | 4294967296
Tile | float[2,3], int64[1]={2} | repeats, 2
Tile | float[2,3], int64[2]={-1,2} | repeats, -1
Tile | float[2,3], int64[2]={4611686018427387904,4} | 9223372036854775808
ConstantOfShape | int64[1]={-1} | -1
ConstantOfShape | int64[2]={4294967296,4294967296} | 4294967296
ConstantOfShape | int64[1]={9223372036854775807} | 9223372036854775807
ConstantOfShape <value = float[2] {1, 2}> | int64[1]={3} | value, 2
ConstantOfShape <value = float[0] {}> | int64[1]={3} | value, 0
Pad | float[2,3], int64[3]={0,0,0} | pads, 4
Pad | float[2,3], int64[4]={-2,0,-1,0} | -2
Pad <mode = "symmetric"> | float[2,3], int64[4]={0,0,0,0} | mode, symmetric
Pad <mode = "reflect"> | float[2,3], int64[4]={2,0,0,0} | reflect, 2
Pad <mode = "reflect"> | float[2,3], int64[4]={0,0,0,3} | reflect, 3
Pad | float[2,3], int64[2]={0,0}, -, int64[1]={2} | axis, 2
Pad | float[2,3], int64[4]={0,0,0,0}, -, int64[2]={1,1} | twice
Pad | float[2,3], int64[4]={0,0,0,4611686018427387904} | 4611686018427387907
Pad | float[2,3], int64[4]={0,0,0,0}, float[2] | one element
@2 Pad <pads = [1]> | float[2,3] | pads, 4
Slice | float[2,3], int64[1]={0}, int64[1]={1}, int64[1]={0}, int64[1]={0} | step, 0
Slice | float[2,3], int64[1]={0}, int64[1]={1}, int64[1]={2} | axis, 2
Slice | float[2,3], int64[2]={0,0}, int64[1]={1} | 2, 1
Slice | float[2,3], int64[2]={0,0}, int64[2]={1,1}, int64[2]={0,0} | twice
Slice | float[2,3], int64[3]={0,0,0}, int64[3]={1,1,1} | 3
Slice | float[2,3], int64[1,1]={0}, int64[1,1]={1} | rank 2
@9 Slice <starts = [0], ends = [1], axes = [4]> | float[2,3] | axis, 4
@9 Slice <starts = [0, 1], ends = [1]> | float[2,3] | 2, 1
Range | int64={0}, int64={5}, int64={0} | delta, 0
Range | float={0}, float={5}, float={0} | 0
Range | int64={0}, int64={9223372036854775807}, int64={1} | 9223372036854775807
Range | int64={-9223372036854775808}, int64={9223372036854775807}, int64={1} | Range
Range | int64[2]={0,1}, int64={5}, int64={1} | one element
OneHot <axis = 3> | int64[2], int64={3}, float[2] | axis, 3
OneHot | int64[2], int64={0}, float[2] | depth, 0
OneHot | int64[2], int64[2]={3,3}, float[2] | one element
OneHot | int64[2], int64={3}, float[3] | 3, should be 2
OneHot | int64[2], int64={3}, float | rank 0
OneHot | int64[2], int64={4611686018427387904}, float[2] | 4611686018427387904
Conv | float[1,3,4,4], float[2,2,3,3] | 3, 2
Conv <group = 0> | float[1,4,4,4], float[2,2,3,3] | group, 0
Conv <group = 3> | float[1,6,4,4], float[4,2,3,3] | group, 3
Conv <group = 9223372036854775807> | float[1,6,4,4], float[4,2,3,3] | group, 9223372036854775807
Conv <strides = [0, 1]> | float[1,1,4,4], float[1,1,3,3] | strides, 0
Conv <strides = [1]> | float[1,1,4,4], float[1,1,3,3] | strides, [1]
Conv <dilations = [0, 1]> | float[1,1,4,4], float[1,1,3,3] | dilations, 0
Conv <pads = [1, 1]> | float[1,1,4,4], float[1,1,3,3] | pads, 4
Conv <pads = [0, 0, 0, -9]> | float[1,1,4,4], float[1,1,3,3] | -9
Conv <kernel_shape = [2, 2]> | float[1,1,4,4], float[1,1,3,3] | kernel_shape, [2\\, 2]
Conv <kernel_shape = [3]> | float[1,1,4,4], float[1,1,3,3] | kernel_shape, [3]
Conv <kernel_shape = [0, 3]> | float[1,1,4,4], float[1,1,3,3] | kernel_shape, 0
Conv | float[1,1,2,2], float[1,1,3,3] | 3
Conv <auto_pad = "same_upper"> | float[1,1,4,4], float[1,1,3,3] | auto_pad, same_upper
Conv | float[1,1,4,4], float[1,1,3,3], float[2] | 'c', M is 1
Conv | float[1,1,4,4], float[1,1,3,3], float[1,1] | rank 2
Conv | float[1,1], float[1,1] | rank
Conv | float[1,1,4], float[1,1,3,3] | rank
Conv <strides = [9223372036854775807, 1], dilations = [9223372036854775807, 1]> | float[1,1,4,4], float[1,1,3,3] | 9223372036854775807
Conv <pads = [9223372036854775807, 0, 9223372036854775807, 0]> | float[1,1,4,4], float[1,1,3,3] | 18446744073709551616
ConvInteger <strides = [0, 0]> | uint8[1,1,4,4], uint8[1,1,3,3] | strides, 0
ConvInteger <group = 0> | uint8[1,1,4,4], uint8[1,1,3,3] | group, 0
QLinearConv <dilations = [0, 0]> | uint8[1,1,4,4], float, uint8, uint8[1,1,3,3], float, uint8, float, uint8 | dilations, 0
ConvTranspose <strides = [0, 1]> | float[1,1,4,4], float[1,1,3,3] | strides, 0
ConvTranspose <output_padding = [1, 0]> | float[1,1,2,2], float[1,1,2,2] | output_padding 1, 1
ConvTranspose <output_padding = [0, 2], dilations = [2, 2]> | float[1,1,2,2], float[1,1,2,2] | output_padding 2, 2
ConvTranspose <group = 0> | float[1,2,4,4], float[2,1,3,3] | group, 0
ConvTranspose <group = 3> | float[1,2,4,4], float[2,1,3,3] | group, 3
ConvTranspose | float[1,3,4,4], float[2,1,3,3] | 2, 3
ConvTranspose <output_padding = [-1, 0]> | float[1,1,4,4], float[1,1,3,3] | output_padding, -1
ConvTranspose <output_shape = [5]> | float[1,1,4,4], float[1,1,3,3] | output_shape, [5]
ConvTranspose <output_shape = [-5, 6]> | float[1,1,4,4], float[1,1,3,3] | output_shape, -5
ConvTranspose <pads = [9, 9, 9, 9]> | float[1,1,4,4], float[1,1,3,3] | -12
ConvTranspose <kernel_shape = [2, 2]> | float[1,1,4,4], float[1,1,3,3] | kernel_shape
ConvTranspose <auto_pad = "VALIDATE"> | float[1,1,4,4], float[1,1,3,3] | auto_pad, VALIDATE
DeformConv <group = 0> | float[1,1,4,4], float[1,1,3,3], float[1,18,2,2] | group, 0
DeformConv <offset_group = 0> | float[1,1,4,4], float[1,1,3,3], float[1,18,2,2] | offset_group, 0
DeformConv <strides = [0, 1]> | float[1,1,4,4], float[1,1,3,3], float[1,18,2,2] | strides, 0
DeformConv | float[1,1,4,4], float[1,1,3,3], float[1,9,2,2] | offset, 9
MaxPool <kernel_shape = [0, 2]> | float[1,1,4,4] | kernel_shape, 0
MaxPool <kernel_shape = [2]> | float[1,1,4,4] | kernel_shape, [2]
MaxPool <kernel_shape = [2, 2], strides = [0, 1]> | float[1,1,4,4] | strides, 0
MaxPool <kernel_shape = [2, 2], pads = [2, 0, 0, 0]> | float[1,1,4,4] | pads, 2
MaxPool <kernel_shape = [2, 2], pads = [-1, 0, 0, 0]> | float[1,1,4,4] | pads, -1
MaxPool <kernel_shape = [2, 2], pads = [0, 0]> | float[1,1,4,4] | pads, 4
MaxPool <kernel_shape = [2, 2], dilations = [0, 1]> | float[1,1,4,4] | dilations, 0
MaxPool <kernel_shape = [5, 5]> | float[1,1,4,4] | 5
MaxPool <kernel_shape = [2, 2], storage_order = 2> | float[1,1,4,4] | storage_order, 2
MaxPool <kernel_shape = [2, 2], auto_pad = "FULL"> | float[1,1,4,4] | auto_pad, FULL
AveragePool <kernel_shape = [2, 2], strides = [0, 0]> | float[1,1,4,4] | strides, 0
AveragePool <kernel_shape = [2, 2], pads = [0, 0, 2, 0]> | float[1,1,4,4] | pads, 2
AveragePool <kernel_shape = [2, 2], dilations = [-1, 1]> | float[1,1,4,4] | dilations, -1
AveragePool <kernel_shape = [2, 2]> | float[4,4] | kernel_shape
LpPool <kernel_shape = [2, 2], p = 0> | float[1,1,4,4] | p, 0
LpPool <kernel_shape = [2, 2], strides = [1]> | float[1,1,4,4] | strides
GlobalAveragePool | float[4] | rank, 1
GlobalLpPool <p = -1> | float[1,1,4,4] | p, -1
MaxUnpool <kernel_shape = [2, 2], strides = [-2, 2]> | float[1,1,2,2], int64[1,1,2,2] | strides, -2
MaxUnpool <kernel_shape = [0, 2]> | float[1,1,2,2], int64[1,1,2,2] | kernel_shape, 0
MaxUnpool <kernel_shape = [2, 2]> | float[1,1,2,2], int64[1,1,2,3] | 2, 3
MaxRoiPool <pooled_shape = [0, 1]> | float[1,1,4,4], float[1,5] | pooled_shape, 0
MaxRoiPool <pooled_shape = [1]> | float[1,1,4,4], float[1,5] | pooled_shape, [1]
MaxRoiPool <pooled_shape = [1, 1]> | float[1,1,4,4], float[1,4] | 'b', 4
RoiAlign <output_height = -7> | float[1,1,4,4], float[1,4], int64[1] | output_height, -7
RoiAlign <output_width = -1> | float[1,1,4,4], float[1,4], int64[1] | output_width, -1
RoiAlign <mode = "median"> | float[1,1,4,4], float[1,4], int64[1] | mode, median
RoiAlign <coordinate_transformation_mode = "x"> | float[1,1,4,4], float[1,4], int64[1] | coordinate_transformation_mode, x
RoiAlign | float[1,1,4,4], float[1,5], int64[1] | 'b', 5
RoiAlign | float[1,1,4,4], float[2,4], int64[1] | 2, 1
RoiAlign <sampling_ratio = -2> | float[1,1,4,4], float[1,4], int64[1] | sampling_ratio, -2
DepthToSpace <blocksize = 0> | float[1,4,2,2] | blocksize, 0
DepthToSpace <blocksize = 3> | float[1,4,2,2] | 4, 3
DepthToSpace <blocksize = 2> | float[4,2,2] | rank, 3
DepthToSpace <blocksize = 2, mode = "RCD"> | float[1,4,2,2] | mode, RCD
SpaceToDepth <blocksize = 0> | float[1,4,2,2] | blocksize, 0
SpaceToDepth <blocksize = 3> | float[1,4,2,2] | 3
SpaceToDepth <blocksize = 2> | float[4,2] | rank, 2
Col2Im | float[1,4,4], int64[2]={4,4}, int64[2]={0,2} | block, 0
Col2Im | float[1,4,4], int64[2]={-4,4}, int64[2]={2,2} | image, -4
Col2Im <strides = [0, 1]> | float[1,4,9], int64[2]={4,4}, int64[2]={2,2} | strides, 0
Col2Im | float[1,5,9], int64[2]={4,4}, int64[2]={2,2} | 5, 4
BatchNormalization | float[1,2,4], float[3], float[2], float[2], float[2] | 3, 2
BatchNormalization | float[1,2,4], float[2], float[2], float[2], float[1] | 1, 2
BatchNormalization | float[1,2,4], float[2,1], float[2], float[2], float[2] | rank
InstanceNormalization | float[1,2,4], float[3], float[2] | 3, 2
InstanceNormalization | float[2], float[2], float[2] | rank
GroupNormalization <num_groups = 0> | float[1,4,4], float[4], float[4] | num_groups, 0
GroupNormalization <num_groups = 3> | float[1,4,4], float[4], float[4] | num_groups, 3
GroupNormalization <num_groups = 2> | float[1,4,4], float[3], float[4] | 3, 4
LayerNormalization <axis = 3> | float[1,2,4], float[4] | axis, 3
LayerNormalization | float[1,2,4], float[3] | 3, 4
LayerNormalization <stash_type = 7> | float[1,2,4], float[4] | stash_type, 7
@23 RMSNormalization <axis = 3> | float[1,2,4], float[4] | axis, 3
LRN <size = 0> | float[1,2,4,4] | size, 0
LRN <size = 3> | float | rank
MeanVarianceNormalization <axes = [7]> | float[1,2,4,4] | axis, 7
Gemm | float[2,3], float[4,5] | 3, 4
Gemm | float[2,3,1], float[3,5] | rank
Gemm | float[2,3], float[3,5], float[4] | C, 4
Gemm | float[2,3], float[3,5], float[1,2,5] | C
MatMul | float[2,3], float[4,5] | 3, 4
MatMul | float, float[2] | A, rank 0
MatMul | float[3,2,3], float[2,3,4] | 2, 3
MatMulInteger | uint8[2,3], uint8[4,5] | 3, 4
QLinearMatMul | uint8[2,3], float={1}, uint8={0}, uint8[4,5], float={1}, uint8={0}, float={1}, uint8={0} | 3, 4
Einsum <equation = "ij,jk->ik"> | float[2,3] | 2, 1
Einsum <equation = "ij,jk->ik"> | float[2,3], float[4,5] | 3, 4
Einsum <equation = "ijk->ij"> | float[2,3] | ijk
Einsum <equation = "ij->iz"> | float[2,3] | z
Einsum <equation = "ij->ii"> | float[2,3] | ii
Einsum <equation = ""> | float[2,3] | equation
Einsum <equation = "i1->i"> | float[2,3] | equation
Einsum <equation = "i->->i"> | float[2] | equation
Einsum <equation = "i....->i"> | float[2] | equation
Det | float[2,3] | 2, 3
Det | float[3] | rank, 1
Add | float[2,3], float[4] | 3, 4
Where | bool[2], float[3], float[3] | 2, 3
PRelu | float[2,3], float[4] | 3, 4
PRelu | float[3], float[2,3] | broadcast
Clip | float[2], float[2] | one element
Clip | float[2], float, float[3] | one element
Cast <to = 0> | float[2] | to, 0
Cast <to = 999> | float[2] | to, 999
@24 Cast <to = 1, round_mode = "sideways"> | float[2] | round_mode, sideways
@4 Cast <to = "FLOOOT"> | float[2] | flooot
BitShift <direction = "UP"> | uint8[2], uint8[2] | direction, UP
BitShift <direction = ""> | uint8[2], uint8[2] | direction
Mod <fmod = 2> | float[2], float[2] | fmod, 2
Gelu <approximate = "exp"> | float[2] | approximate, exp
EyeLike <dtype = 99> | float[2,2] | dtype, 99
EyeLike | float[2] | rank, 1
Trilu | float[3] | rank, 1
Trilu | float[3,3], int64[2]={0,1} | k, 2
Compress <axis = 2> | float[2,3], bool[2] | axis, 2
Unique <axis = 2> | float[2,3] | axis, 2
NonMaxSuppression | float[1,4], float[1,1,4] | rank
NonMaxSuppression | float[1,4,5], float[1,1,4] | 5, 4
NonMaxSuppression | float[1,4,4], float[2,1,4] | 1, 2
NonMaxSuppression <center_point_box = 2> | float[1,4,4], float[1,1,4] | center_point_box, 2
ReverseSequence <batch_axis = 0, time_axis = 0> | float[2,3], int64[2] | time_axis, 0
ReverseSequence <batch_axis = 2, time_axis = 0> | float[2,3], int64[2] | batch_axis, 2
ReverseSequence <batch_axis = 1, time_axis = 0> | float[2,3], int64[2] | 3, 2
ReverseSequence | float[2], int64[2] | rank, 1
Resize <mode = "cubist"> | float[1,1,2,2], -, float[4]={1,1,2,2} | mode, cubist
Resize <coordinate_transformation_mode = "corner"> | float[1,1,2,2], -, float[4]={1,1,2,2} | coordinate_transformation_mode, corner
Resize <nearest_mode = "up"> | float[1,1,2,2], -, float[4]={1,1,2,2} | nearest_mode, up
Resize <keep_aspect_ratio_policy = "x"> | float[1,1,2,2], -, -, int64[4]={1,1,2,2} | keep_aspect_ratio_policy, x
Resize | float[1,1,2,2], -, float[4]={1,1,0,2} | scale, 0
Resize | float[1,1,2,2], -, float[3]={1,1,2} | 3, 4
Resize | float[1,1,2,2], -, -, int64[4]={1,1,-2,2} | size, -2
Resize | float[1,1,2,2], -, float[4]={1,1,2,2}, int64[4]={1,1,4,4} | scales, sizes
Resize | float[1,1,2,2] | scales, sizes
Resize <axes = [2, 2]> | float[1,1,2,2], -, float[2]={2,2} | twice
Resize <axes = [4]> | float[1,1,2,2], -, float[1]={2} | axis, 4
Resize | float[1,1,2,2], -, -, int64[4]={1,1,4611686018427387904,4611686018427387904} | 4611686018427387904
@9 Upsample <mode = "cubist"> | float[1,1,2,2], float[4]={1,1,2,2} | mode, cubist
@9 Upsample | float[1,1,2,2], float[4]={1,1,-2,2} | scale, -2
@9 Upsample | float[1,1,2,2], float[2]={2,2} | 2, 4
GridSample <mode = "spline"> | float[1,1,2,2], float[1,2,2,2] | mode, spline
GridSample <padding_mode = "wrap"> | float[1,1,2,2], float[1,2,2,2] | padding_mode, wrap
GridSample | float[1,1,2,2], float[1,2,2,3] | rank-2 is 2, 3
GridSample | float[1,1,2,2], float[2,2,2,2] | 1, 2
AffineGrid | float[1,2,3], int64[3]={1,1,2} | size, 3
CenterCropPad | float[2,3], int64[1]={2} | 1, 2
CenterCropPad | float[2,3], int64[2]={-2,2} | -2
LSTM <hidden_size = 0> | float[1,1,2], float[1,8,2], float[1,8,2] | hidden_size, 0
LSTM <hidden_size = 2, direction = "both"> | float[1,1,2], float[1,8,2], float[1,8,2] | direction, both
LSTM <hidden_size = 2, layout = 2> | float[1,1,2], float[1,8,2], float[1,8,2] | layout, 2
LSTM <hidden_size = 2> | float[1,1,2], float[1,7,2], float[1,8,2] | 7, 8
LSTM <hidden_size = 2> | float[1,1,2], float[1,8,3], float[1,8,2] | 3, I is 2
LSTM <hidden_size = 2> | float[1,1,2], float[2,8,2], float[1,8,2] | 2, directions is 1
LSTM <hidden_size = 2> | float[1,2], float[1,8,2], float[1,8,2] | rank
LSTM <hidden_size = 2, activations = ["Relu"]> | float[1,1,2], float[1,8,2], float[1,8,2] | activations
LSTM <hidden_size = 2, activations = ["Foo", "Tanh", "Tanh"]> | float[1,1,2], float[1,8,2], float[1,8,2] | activations, Foo
LSTM <hidden_size = 3> | float[1,1,2], float[1,8,2], float[1,8,2] | 2, hidden_size is 3
GRU <hidden_size = 2> | float[1,1,2], float[1,6,2], float[1,5,2] | R, 5
GRU <hidden_size = -2> | float[1,1,2], float[1,6,2], float[1,6,2] | hidden_size, -2
GRU <hidden_size = 2, direction = "forwards"> | float[1,1,2], float[1,6,2], float[1,6,2] | direction, forwards
GRU <hidden_size = 2> | float[1,1,2], float[1,6,2], float[1,6,2], float[1,11] | 11, 12
RNN <hidden_size = 2> | float[1,1,2], float[1,2,2], float[1,2,2], -, -, float[1,3,2] | 3, N is 1
RNN <hidden_size = 2> | float[1,1,2], float[1,2,2], float[1,2,2], -, int32[2] | 2, N is 1
QuantizeLinear <axis = 2> | float[2,3], float[3], uint8[3] | axis, 2
QuantizeLinear <axis = 1> | float[2,3], float[2] | 2, 3
QuantizeLinear <axis = 1, block_size = -1> | float[2,4], float[2,2] | block_size, -1
QuantizeLinear <axis = 1, block_size = 3> | float[2,4], float[2,1] | block_size, 3
QuantizeLinear <output_dtype = 1> | float[2,3], float={1} | tensor(float)
QuantizeLinear | float[2,3], float={1}, uint8[2]={0,0} | zero_point, 2
DequantizeLinear <axis = 2> | uint8[2,3], float[3] | axis, 2
DequantizeLinear <axis = 1> | uint8[2,3], float[2] | 2, 3
DequantizeLinear <axis = 1, block_size = 9> | uint8[2,4], float[2,2] | block_size, 9
DequantizeLinear | uint8[2,3], float[1]={1}, uint8[2]={0,0} | zero_point, 2
RandomNormal <shape = [-2, 3]> | | shape, -2
RandomNormal <shape = [2, 3], dtype = 7> | | tensor(int64)
RandomUniform <shape = [4611686018427387904, 4]> | | shape, 4611686018427387904
RandomNormalLike <dtype = 99> | float[2] | dtype, 99
Bernoulli <dtype = 99> | float[2] | dtype, 99
Multinomial <sample_size = 0> | float[1,2] | sample_size, 0
Multinomial <dtype = 1> | float[1,2] | tensor(float)
Multinomial | float[2] | rank, 1
Dropout | float[2], float={1.5} | ratio, 1.5
Dropout | float[2], float={-0.5} | ratio, -0.5
SequenceEmpty <dtype = 99> | | dtype, 99
SplitToSequence <axis = 2> | float[2,3] | axis, 2
SplitToSequence | float[2,3], int64={0} | split, 0
SplitToSequence | float[2,3], int64[2]={1,2} | 3, 2
Constant | | value
Constant <value_int = 1, value_float = 2.0> | | value_int, value_float
HannWindow <output_datatype = 99> | int64={3} | output_datatype, 99
HannWindow | int64={-3} | -3
DFT | float[1,4,1], int64={-4} | -4
DFT | float[1,4,1], -, int64={5} | axis, 5
DFT | float[1,4,3] | 3
@17 DFT <axis = 5> | float[1,4,1] | axis, 5
STFT | float[1,8,1], int64={0}, float[4] | frame_step, 0
STFT | float[1,8,1], int64={1}, -, int64={9} | 9, 8
MelWeightMatrix | int64={0}, int64={8}, int64={8000}, float={0}, float={1000} | num_mel_bins, 0
TfIdfVectorizer <$GRAMS, mode = "XX", $POOL> | int64[2] | mode, XX
TfIdfVectorizer <max_skip_count = -1, $GRAM, mode = "TF", $POOL> | int64[2] | max_skip_count, -1
StringNormalizer <case_change_action = "UPSIDE"> | string[2] | case_change_action, UPSIDE
ImageDecoder <pixel_format = "CMYK"> | uint8[9] | pixel_format, CMYK
NegativeLogLikelihoodLoss <reduction = "all"> | float[2,3], int64[2] | reduction, all
NegativeLogLikelihoodLoss | float[2,3], int64[3] | 2, 3
SoftmaxCrossEntropyLoss <reduction = "avg"> | float[2,3], int64[2] | reduction, avg
SoftmaxCrossEntropyLoss | float[2,3], int64[2], float[2] | 2, C is 3
@23 Attention <q_num_heads = 0, kv_num_heads = 1> | float[1,2,4], float[1,2,4], float[1,2,4] | q_num_heads, 0
@23 Attention <q_num_heads = 3, kv_num_heads = 3> | float[1,2,4], float[1,2,4], float[1,2,4] | 4, 3
@23 Attention | float[1,2,4], float[1,2,4], float[1,2,4] | q_num_heads
@23 Attention <q_num_heads = 3, kv_num_heads = 2> | float[1,2,6], float[1,2,4], float[1,2,4] | 3, 2
@23 Attention <softmax_precision = 7> | float[1,2,2,4], float[1,2,2,4], float[1,2,2,4] | softmax_precision, 7
@23 RotaryEmbedding <num_heads = 0> | float[1,2,4], float[2,2], float[2,2], int64[1,2] | num_heads
@23 RotaryEmbedding | float[1,1,2,3], float[2,1], float[2,1], int64[1,2] | 3
Scan <num_scan_inputs = 1> | float[2] | body
Loop | int64, bool | body
If | bool | else_branch
""".replace("$POOL", "ngram_counts = [0], ngram_indexes = [0], pool_int64s = [1]")
    .replace("$GRAMS", "$GRAM, max_skip_count = 0")
    .replace("$GRAM", "max_gram_length = 1, min_gram_length = 1")
)
