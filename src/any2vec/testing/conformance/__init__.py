"""What each seam promises, as tests: inherit a class, and say how to make yours. It needs pytest.

class TestMine(ScheduleTests):
    def schedule(self, hosts, rank): ...
"""
