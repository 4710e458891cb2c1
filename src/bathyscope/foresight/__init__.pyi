from bathyscope.foresight.forecast import forecast as forecast
from bathyscope.foresight.readings import features as features
from bathyscope.foresight.record import Forecast as Forecast
from bathyscope.foresight.stepping import Stage as Stage
from bathyscope.foresight.stepping import look_ahead as look_ahead
from bathyscope.foresight.stepping import stage_label as stage_label
