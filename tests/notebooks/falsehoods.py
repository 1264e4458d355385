"""For each claim of the lessons, a change of the lesson's text that makes the claim false."""

FALSE = {
    "1.1": ("distance(losses[0], losses[1], spread)", "distance(losses[0] + 1, losses[1], spread)"),
    "1.2": ("first_difference(lesson.digests(one, name),", "first_difference(lesson.digests(other, name),"),
    "1.3": ('case = lesson.next_to_reference(fault="?1")', 'case = lesson.next_to_reference("sum-instead-of-mean")'),
    "1.4": ('got, want = zp.number(verdict["candidate"])', 'got, want = zp.number(verdict["reference"])'),
    "1.5": ('whole[:order.index(verdict["buffer"])]', 'whole[:order.index(verdict["buffer"]) + 1]'),
    "6.1": ("lesson.train_with_layouts(lesson.LAYOUTS)", "lesson.train_with_layouts(lesson.LAYOUTS[:1])"),
    "6.2": ("times_owned(lesson.owned_by(layout, ranks), ", "times_owned(lesson.owned_by(layout, ranks)[1:], "),
    "6.3": ("without_owner(lesson.NUMEL, ranks)", "without_owner(720720, ranks)"),
    "6.4": ("(lesson.planned_peak(stage), ", "(lesson.planned_peak(stage) + 1, "),
    "6.5": ('lesson.after_step(1, "largest")', 'lesson.after_step(0, "largest")'),
    "8.1": ("gathers_of_a_step(len(traced.units), ", "gathers_of_a_step(len(traced.units) + 1, "),
    "8.2": ("full = {ranks: lesson.largest_rank(3, ranks)", "full = {ranks: lesson.largest_rank(2, ranks)"),
    "8.3": ('lesson.fault_in_stage3("unit-read-after-release")', 'lesson.fault_in_stage3("units-swapped")'),
    "8.4": ("sizes = list(units.values())", "sizes = list(units.values())[:1] * 2"),
    "8.5": ("early = zp.verify(*lesson.RUN,",
            'early = zp.verify(*["adam" if word == "adamw" else word for word in lesson.RUN],'),
}
