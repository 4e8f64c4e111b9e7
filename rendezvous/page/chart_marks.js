// Marks on the curves: where a generation began (a dashed line, numbered on the loss) and where a checkpoint
// is (a small triangle on the ground line). Where there are too many to tell apart, lines are drawn thinner and names left out.

const CROWD = 40;
const NAME_WIDTH = 26;
const TRIANGLE = 4.5;

function inView(u, steps) {
  const { min, max } = u.scales.x;
  return steps.filter(({ step }) => step >= min && step <= max);
}

function drawGenerations(u, generations, colour, named) {
  const { ctx, bbox } = u;
  const shown = inView(u, generations);
  const ratio = uPlot.pxRatio;
  const crowded = shown.length > CROWD;
  ctx.strokeStyle = colour("--mark-generation");
  ctx.fillStyle = colour("--mark-generation");
  ctx.lineWidth = (crowded ? 0.5 : 1) * ratio;
  ctx.setLineDash(crowded ? [] : [3 * ratio, 3 * ratio]);
  ctx.font = `600 ${10 * ratio}px ui-sans-serif, system-ui, sans-serif`;
  ctx.textAlign = "left";
  ctx.textBaseline = "top";
  let free = -Infinity;
  for (const { step, generation } of shown) {
    const x = Math.round(u.valToPos(step, "x", true)) + 0.5;
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    if (!named || x < free || x + NAME_WIDTH * ratio > bbox.left + bbox.width) continue;
    ctx.fillText(`g${generation}`, x + 3 * ratio, bbox.top + ratio);
    free = x + NAME_WIDTH * ratio;
  }
  ctx.setLineDash([]);
}

function drawCheckpoints(u, checkpoints, colour) {
  const { ctx, bbox } = u;
  const size = TRIANGLE * uPlot.pxRatio;
  const ground = bbox.top + bbox.height;
  ctx.fillStyle = colour("--mark-checkpoint");
  for (const { step } of inView(u, checkpoints)) {
    const x = u.valToPos(step, "x", true);
    ctx.beginPath();
    ctx.moveTo(x - size, ground);
    ctx.lineTo(x + size, ground);
    ctx.lineTo(x, ground - 1.7 * size);
    ctx.fill();
  }
}

export function drawMarks(u, { generations, checkpoints }, colour, named) {
  u.ctx.save();
  drawGenerations(u, generations, colour, named);
  drawCheckpoints(u, checkpoints, colour);
  u.ctx.restore();
}
