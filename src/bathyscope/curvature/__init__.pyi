from bathyscope.curvature.dense_matrix import dense as dense
from bathyscope.curvature.hessian import gauss_newton as gauss_newton
from bathyscope.curvature.hessian import hessian as hessian
from bathyscope.curvature.matrix import CurvatureMatrix as CurvatureMatrix
from bathyscope.curvature.resolved import EXACT_UP_TO as EXACT_UP_TO
from bathyscope.curvature.resolved import Unresolved as Unresolved
from bathyscope.curvature.resolved import exact_condition_number as exact_condition_number
from bathyscope.curvature.resolved import exact_negative_index as exact_negative_index
